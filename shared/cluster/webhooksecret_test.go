package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestWebhookToken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, ref := t.Context(), b.app.Ref()
	other := app.Ref{Namespace: ref.Namespace, Name: "other"}
	first, second := hook.Token(strings.Repeat("A", 43)), hook.Token(strings.Repeat("B", 42)+"A")
	if _, err := b.cluster.WebhookToken(ctx, ref); !problem.Is(err, problem.NotFound) {
		t.Errorf("disabled webhook: got %v, want not_found", err)
	}
	for _, token := range []hook.Token{first, second} {
		b.must(b.cluster.SetWebhookToken(ctx, ref, token))
		if got, err := b.cluster.WebhookToken(ctx, ref); err != nil || got != token {
			t.Errorf("got another token: %v", err)
		}
	}
	if _, err := b.cluster.WebhookToken(ctx, other); !problem.Is(err, problem.NotFound) {
		t.Errorf("other app: %v", err)
	}
	secret, err := b.kube.CoreV1().Secrets(b.cluster.webhooks).Get(ctx, ref.Namespace+".hello", metav1.GetOptions{})
	b.must(err)
	want := &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"token": []byte(second)}}
	check.Equal(t, "secret", want, &corev1.Secret{Type: secret.Type, Data: secret.Data})
	seen, err := b.cluster.Secret(ctx, b.cluster.webhooks, ref.String())
	b.must(err)
	b.must(b.cluster.DeleteWebhookToken(ctx, ref))
	if _, err := b.cluster.WriteSecret(ctx, seen); !problem.Is(err, problem.Conflict) {
		t.Errorf("write after the deletion: got %v, want conflict", err)
	}
	b.must(b.cluster.DeleteWebhookToken(ctx, ref))
	if _, err := b.cluster.WebhookToken(ctx, ref); !problem.Is(err, problem.NotFound) {
		t.Errorf("second deletion: %v", err)
	}
}

func TestDamagedWebhookSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, ref := t.Context(), b.app.Ref()
	_, err := b.kube.CoreV1().Secrets(b.cluster.webhooks).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: ref.Namespace + ".hello"},
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

func TestWatchedTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, ref := t.Context(), b.app.Ref()
	before := app.Ref{Namespace: ref.Namespace, Name: "before"}
	first, second := hook.Token(strings.Repeat("A", 43)), hook.Token(strings.Repeat("B", 42)+"A")
	b.must(b.cluster.SetWebhookToken(ctx, before, first))
	watched := b.cluster.WatchWebhookTokens(slog.New(slog.DiscardHandler))
	var group sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	t.Cleanup(func() { stop(); group.Wait() })
	group.Go(func() {
		if err := watched.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-watched.Synced()
	is := func(ref app.Ref, want hook.Token) {
		t.Helper()
		b.eventually(func() error {
			if got, ok := watched.Token(ref); got != want || ok != (want != "") {
				return fmt.Errorf("token of %s: got another one", ref)
			}
			return nil
		})
	}
	if got, ok := watched.Token(before); got != first || !ok {
		t.Error("Synced was closed before an existing token was cached")
	}
	is(ref, "")
	b.must(b.cluster.SetWebhookToken(ctx, ref, first))
	is(ref, first)
	b.must(b.cluster.SetWebhookToken(ctx, ref, second))
	is(ref, second)
	damaged, err := b.kube.CoreV1().Secrets(b.cluster.webhooks).Get(ctx, ref.String(), metav1.GetOptions{})
	b.must(err)
	damaged.Data["token"] = nil
	_, err = b.kube.CoreV1().Secrets(b.cluster.webhooks).Update(ctx, damaged, metav1.UpdateOptions{})
	b.must(err)
	is(ref, "")
	b.must(b.cluster.DeleteWebhookToken(ctx, before))
	is(before, "")
}
