package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
)

// tokenEntry is where a webhook's Secret holds the token. There is no other entry.
const tokenEntry = "token"

// webhookSecretName is the Secret with the token of an app's webhook, at most 55
// characters, e.g. "sluice-webhook-hello". It exists as long as the webhook is
// enabled. The API server encrypts it at rest (decisions section 6).
func webhookSecretName(ref app.Ref) string { return "sluice-webhook-" + ref.Name }

// WebhookToken reads the token of an app's webhook. Problem: not_found when the
// webhook is disabled, or its Secret holds nothing that can be a token.
func (c *Cluster) WebhookToken(ctx context.Context, ref app.Ref) (hook.Token, error) {
	s, err := c.Secret(ctx, ref.Namespace, webhookSecretName(ref))
	if err != nil {
		return "", err
	}
	token := hook.Token(s.Data[tokenEntry])
	if !token.Valid() {
		return "", fmt.Errorf("token of the webhook of %s: %w", ref, problem.New(problem.NotFound, "The webhook's Secret holds no token."))
	}
	return token, nil
}

// SetWebhookToken enables an app's webhook, or gives it another token; the one
// before is worth nothing from then on. Problem: conflict when somebody else did
// the same meanwhile, and whose token it is now is theirs to tell.
func (c *Cluster) SetWebhookToken(ctx context.Context, ref app.Ref, token hook.Token) error {
	s, err := c.Secret(ctx, ref.Namespace, webhookSecretName(ref))
	if problem.Is(err, problem.NotFound) {
		s, err = Secret{Namespace: ref.Namespace, Name: webhookSecretName(ref), Type: OpaqueSecret}, nil
	}
	if err != nil {
		return err
	}
	s.Data = map[string][]byte{tokenEntry: []byte(token)}
	_, err = c.WriteSecret(ctx, s)
	return err
}

// DeleteWebhookToken disables an app's webhook; again is no error.
func (c *Cluster) DeleteWebhookToken(ctx context.Context, ref app.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.secrets(ref.Namespace).delete(ctx, webhookSecretName(ref), metav1.DeleteOptions{})
	if c.foreign(ctx, ref.Namespace, err) {
		return nil
	}
	if err := gone(err); err != nil {
		return fmt.Errorf("delete the webhook token of %s: %w", ref, err)
	}
	return nil
}
