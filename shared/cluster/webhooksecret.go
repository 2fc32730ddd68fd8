package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
)

// Webhook tokens have their own namespace ([Options].WebhookNamespace): RBAC has no name
// patterns, so rights on Secrets apply to a whole namespace. A Secret's name is [app.Ref.String],
// e.g. "shop-prod.hello", at most 104 characters. It exists while the webhook is enabled. The API
// server encrypts it at rest (promise W3).
const tokenEntry = "token"

// WebhookToken returns the token of an app's webhook. It returns a not_found problem if the
// webhook is disabled or its Secret contains no valid token.
func (c *Cluster) WebhookToken(ctx context.Context, ref app.Ref) (hook.Token, error) {
	s, err := c.Secret(ctx, c.webhooks, ref.String())
	if err != nil {
		return "", err
	}
	token := hook.Token(s.Data[tokenEntry])
	if !token.Valid() {
		return "", fmt.Errorf("webhook token of %s: %w", ref, problem.New(problem.NotFound, "The webhook's Secret contains no valid token. Enable the webhook again."))
	}
	return token, nil
}

// SetWebhookToken enables an app's webhook or replaces its token. It returns a conflict problem
// if another call set the token concurrently.
func (c *Cluster) SetWebhookToken(ctx context.Context, ref app.Ref, token hook.Token) error {
	s, err := c.Secret(ctx, c.webhooks, ref.String())
	if problem.Is(err, problem.NotFound) {
		s, err = Secret{Namespace: c.webhooks, Name: ref.String(), Type: OpaqueSecret}, nil
	}
	if err != nil {
		return err
	}
	s.Data = map[string][]byte{tokenEntry: []byte(token)}
	_, err = c.WriteSecret(ctx, s)
	return err
}

// DeleteWebhookToken disables an app's webhook, if it is enabled.
func (c *Cluster) DeleteWebhookToken(ctx context.Context, ref app.Ref) error {
	return c.secrets(c.webhooks).delete(ctx, ref.String(), metav1.DeleteOptions{})
}

// DeleteWebhookTokenIf disables an app's webhook if allowed returns true. It does not delete a
// Secret that was created after the call of allowed.
func (c *Cluster) DeleteWebhookTokenIf(ctx context.Context, ref app.Ref, allowed func(context.Context) (bool, error)) error {
	seen, err := c.secrets(c.webhooks).find(ctx, ref.String())
	if err != nil || seen == nil {
		return err
	}
	if ok, err := allowed(ctx); err != nil || !ok {
		return err
	}
	err = deleteSeen(ctx, c.secrets(c.webhooks), seen, same)
	if problem.Is(err, problem.Conflict) { // the Secret was replaced
		return nil
	}
	return err
}

// TokenCache is a cache of the tokens of all webhooks, which a watch keeps up to date.
type TokenCache struct {
	secrets dynamic.ResourceInterface
	log     *slog.Logger
	synced  chan struct{} // closed after the first list

	mu     sync.RWMutex
	tokens map[string]hook.Token // by [app.Ref.String]
}

// WatchWebhookTokens returns an empty cache; [TokenCache.Run] fills it.
func (c *Cluster) WatchWebhookTokens(log *slog.Logger) *TokenCache {
	return &TokenCache{secrets: c.secrets(c.webhooks).api, log: log, synced: make(chan struct{}), tokens: map[string]hook.Token{}}
}

// Run watches until ctx ends. It retries with pauses of up to half a minute.
func (w *TokenCache) Run(ctx context.Context) error {
	list := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			all, err := w.secrets.List(ctx, o)
			return all, w.failed(ctx, "list", err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			changes, err := w.secrets.Watch(ctx, o)
			return changes, w.failed(ctx, "watch", err)
		},
	}
	quiet := logr.Discard() // client-go's messages may contain data that it received
	reflector := cache.NewReflectorWithOptions(list, &unstructured.Unstructured{}, w, cache.ReflectorOptions{Name: "webhook tokens", Logger: &quiet})
	reflector.RunWithContext(klog.NewContext(ctx, quiet))
	return nil
}

func (w *TokenCache) failed(ctx context.Context, verb string, err error) error {
	if err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, "watch webhook tokens failed", "verb", verb, "error", err)
	}
	return err
}

// Synced returns a channel that is closed after the first list.
func (w *TokenCache) Synced() <-chan struct{} { return w.synced }

// Token returns the cached token of an app's webhook.
func (w *TokenCache) Token(ref app.Ref) (token hook.Token, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	token, ok = w.tokens[ref.String()]
	return token, ok
}

// Replace implements [cache.ReflectorStore].
func (w *TokenCache) Replace(list []any, _ string) error {
	all := make(map[string]hook.Token, len(list))
	for _, object := range list {
		if name, token, ok := tokenOf(object); ok {
			all[name] = token
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens = all
	select {
	case <-w.synced:
	default:
		close(w.synced)
	}
	return nil
}

// Add implements [cache.ReflectorStore].
func (w *TokenCache) Add(object any) error { return w.Update(object) }

// Update implements [cache.ReflectorStore].
func (w *TokenCache) Update(object any) error {
	name, token, ok := tokenOf(object)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok {
		delete(w.tokens, name)
		return nil
	}
	w.tokens[name] = token
	return nil
}

// Delete implements [cache.ReflectorStore].
func (w *TokenCache) Delete(object any) error {
	name, _, _ := tokenOf(object)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.tokens, name)
	return nil
}

// Resync implements [cache.ReflectorStore].
func (*TokenCache) Resync() error { return nil }

func tokenOf(object any) (name string, token hook.Token, ok bool) {
	u, isObject := object.(*unstructured.Unstructured)
	if !isObject {
		return "", "", false
	}
	s, err := fromAPI[corev1.Secret](u, nil)
	if err != nil {
		return u.GetName(), "", false
	}
	token = hook.Token(s.Data[tokenEntry])
	return s.Name, token, token.Valid()
}
