package cli

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/contexts"
	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) login() *cobra.Command {
	var username string
	cmd := &cobra.Command{
		Use: "login [URL]", Short: "Sign in to a server and save it as a context",
		Long: `Sign in to a server, save it as a context and make that the current context.

Without a URL, the command signs in again to the server of the context, or to SLUICE_URL.
--context names the context; the default is the server's host.

The session is stored in a file that only you can read, in $XDG_CONFIG_HOME/sluice or
~/.config/sluice. The file also holds a device token. With it, you can sign in from here again
even if others have tried wrong passwords for your username.

The command prompts for the password without showing it. In a script, use --password-stdin.`,
		Example: `  sluice login https://sluice.example.com --username ada
  pass show sluice | sluice login https://sluice.example.com --username ada --password-stdin`,
	}
	fromStdin := passwordStdin(cmd)
	cmd.Flags().StringVarP(&username, "username", "u", "", "username")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := a.contexts()
		if err != nil {
			return err
		}
		c, err := a.target(dir, args)
		if err != nil {
			return err
		}
		if isPlaintext(c.URL) {
			a.note("warning: %s does not use HTTPS: others on the network can read the password and the session", c.URL)
		}
		if username == "" {
			if username, err = a.askUsername(cmd.Context(), c.Username); err != nil {
				return err
			}
		}
		password, err := a.readPassword(cmd.Context(), "Password for "+username+": ", *fromStdin)
		if err != nil {
			return err
		}
		return a.signIn(cmd.Context(), dir, c, username, password)
	}
	return cmd
}

type sessionView struct {
	ExpiresAt    time.Time          `json:"expires_at"`
	User         wire.Caller        `json:"user"`
	ServiceToken *wire.SessionToken `json:"service_token"`
}

func (a *application) signIn(ctx context.Context, dir contexts.Dir, c contexts.Context, username, password string) error {
	s, err := a.dial(c.URL).WithDevice(c.Device).SignIn(ctx, username, password)
	if err != nil {
		return err
	}
	c.Username, c.Token, c.ExpiresAt, c.Device = s.User.Username, s.Token, s.ExpiresAt, s.Device
	if err := dir.Put(c); err != nil {
		return err
	}
	if err := dir.Use(c.Name); err != nil {
		return err
	}
	return a.show(sessionView{ExpiresAt: s.ExpiresAt, User: s.User}, func(r render.Screen) error {
		return r.Line("Signed in to %s as %s until %s (context %s).", c.URL, s.User.Username, stamp(s.ExpiresAt), c.Name)
	})
}

func (a *application) target(dir contexts.Dir, args []string) (contexts.Context, error) {
	var base string
	switch {
	case len(args) > 0:
		base = args[0]
	case a.flags.context == "":
		base = a.env.Getenv("SLUICE_URL")
	}
	if base == "" {
		c, err := a.context()
		if err == nil && c.URL == "" {
			err = usage("no server: pass its URL, as in sluice login URL")
		}
		return c, err
	}
	base, err := cleanURL(base)
	if err != nil {
		return contexts.Context{}, usage("%w", err)
	}
	return a.targetOf(dir, base)
}

// targetOf returns the context of --context, else the saved context of the server, else a new
// context with the name of the server's host.
func (a *application) targetOf(dir contexts.Dir, base string) (contexts.Context, error) {
	name := a.flags.context
	if name == "" {
		names, err := dir.Names()
		if err != nil {
			return contexts.Context{}, err
		}
		for _, n := range names {
			if c, err := dir.Get(n); err == nil && c.URL == base {
				return c, nil
			}
		}
		if name, err = freeName(base, names); err != nil {
			return contexts.Context{}, err
		}
	}
	c, err := dir.Get(name)
	switch {
	case errors.Is(err, contexts.ErrNotFound):
		return contexts.Context{Name: name, URL: base}, nil
	case err != nil:
		return c, err
	case c.URL != base: // the context was for another server, with other projects
		return contexts.Context{Name: name, URL: base}, nil
	}
	return c, nil
}

func freeName(base string, taken []string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", usage("%w", err)
	}
	host := strings.NewReplacer(":", "-", "[", "", "]", "").Replace(u.Host)
	if len(host) > 50 {
		host = host[:50]
	}
	if contexts.CheckName(host) != nil {
		host = "server"
	}
	name := host
	for n := int64(2); slices.Contains(taken, name); n++ {
		name = host + "-" + number(n)
	}
	return name, nil
}

func (a *application) logout() *cobra.Command {
	return a.command(onServer, &cobra.Command{
		Use: "logout", Short: "Sign out and end the session",
		Example: `  sluice logout`,
	}, func(ctx context.Context, w work) error {
		out := w.SignOut(ctx)
		if client.HasCode(out, "unauthenticated") {
			out = nil
		}
		if client.HasCode(out, "forbidden") {
			return out // a service token has no session
		}
		if err := a.deleteSession(); err != nil {
			return errors.Join(out, err)
		}
		if out != nil {
			a.note("Session deleted on this machine, but the server did not end it. On the server, the session is valid until it expires.")
			return out
		}
		return a.done("Signed out.")
	})
}

func (a *application) deleteSession() error {
	s, err := a.server()
	if err != nil || s.context.Name == "" || s.token != s.context.Token {
		return err
	}
	dir, err := a.contexts()
	if err != nil {
		return err
	}
	c := s.context
	c.Token, c.ExpiresAt = "", time.Time{}
	return dir.Put(c)
}

func (a *application) whoami() *cobra.Command {
	return a.command(onServer, &cobra.Command{
		Use: "whoami", Short: "Show the current user or service token",
		Example: `  sluice whoami`,
	}, showResult(func(who wire.Session) error {
		at, err := a.server()
		if err != nil {
			return err
		}
		fields := []render.Field{
			{Name: "User", Value: who.User.Username},
			{Name: "Admin", Value: yesNo(who.User.Admin)},
			{Name: "Server", Value: at.url},
			{Name: "Context", Value: at.context.Name},
			{Name: "Session ends", Value: stamp(who.ExpiresAt)},
		}
		if t := who.ServiceToken; t != nil {
			fields = []render.Field{
				{Name: "Service token", Value: t.Name},
				{Name: "ID", Value: t.ID},
				{Name: "Project", Value: t.Project},
				{Name: "Role", Value: t.Role},
				{Name: "Server", Value: at.url},
				{Name: "Expires", Value: expiryText(&who.ExpiresAt)},
			}
		}
		return a.showFields(sessionView{ExpiresAt: who.ExpiresAt, User: who.User, ServiceToken: who.ServiceToken}, fields)
	}, func(ctx context.Context, w work) (wire.Session, error) { return w.WhoAmI(ctx) }))
}
