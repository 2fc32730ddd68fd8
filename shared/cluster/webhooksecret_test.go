package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
)

func TestWebhookToken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, ref := t.Context(), b.app.Ref()
	other := app.Ref{Namespace: ref.Namespace, Name: "other"}
	first, second := hook.Token(strings.Repeat("A", 43)), hook.Token(strings.Repeat("B", 42)+"A")
	b.must(b.cluster.DeleteWebhookToken(ctx, ref)) // there is not even a namespace
	b.must(b.cluster.EnsureNamespace(ctx, ref.Namespace))
	if _, err := b.cluster.WebhookToken(ctx, ref); !problem.Is(err, problem.NotFound) {
		t.Errorf("disabled: %v", err)
	}
	for _, token := range []hook.Token{first, second} {
		b.must(b.cluster.SetWebhookToken(ctx, ref, token))
		if got, err := b.cluster.WebhookToken(ctx, ref); err != nil || got != token {
			t.Errorf("the token is another one: %v", err)
		}
	}
	if _, err := b.cluster.WebhookToken(ctx, other); !problem.Is(err, problem.NotFound) {
		t.Errorf("the other app: %v", err)
	}
	secret, err := b.kube.CoreV1().Secrets(ref.Namespace).Get(ctx, "sluice-webhook-hello", metav1.GetOptions{})
	b.must(err)
	want := &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"token": []byte(second)}}
	if diff := cmp.Diff(want, &corev1.Secret{Type: secret.Type, Data: secret.Data}); diff != "" {
		t.Errorf("secret (-want +got):\n%s", diff)
	}
	b.must(b.cluster.DeleteWebhookToken(ctx, ref))
	b.must(b.cluster.DeleteWebhookToken(ctx, ref))
	if _, err := b.cluster.WebhookToken(ctx, ref); !problem.Is(err, problem.NotFound) {
		t.Errorf("disabled again: %v", err)
	}
}

// TestDamagedWebhookSecret: a Secret that holds no token opens nothing, and
// enabling the webhook again repairs it.
func TestDamagedWebhookSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, ref := t.Context(), b.app.Ref()
	b.must(b.cluster.EnsureNamespace(ctx, ref.Namespace))
	_, err := b.kube.CoreV1().Secrets(ref.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "sluice-webhook-hello"},
		Data:       map[string][]byte{"token": {}, "more": []byte("x")},
	}, metav1.CreateOptions{})
	b.must(err)
	if _, err := b.cluster.WebhookToken(ctx, ref); !problem.Is(err, problem.NotFound) {
		t.Errorf("damaged: %v", err)
	}
	token := hook.Token(strings.Repeat("A", 43))
	b.must(b.cluster.SetWebhookToken(ctx, ref, token))
	if got, err := b.cluster.WebhookToken(ctx, ref); err != nil || got != token {
		t.Errorf("repaired: %v", err)
	}
}
