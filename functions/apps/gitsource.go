package apps

import (
	"context"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	maxRepository = 2048 // characters
	maxBranch     = 255  // characters
	maxPath       = 512  // characters
)

var scpRepository = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[A-Za-z0-9~_/.][A-Za-z0-9~_/.-]*$`)

func (s *Service) setGitSource(ctx context.Context, in httpapi.Scope, body wire.GitSource) (wire.App, error) {
	source := app.GitSource{Repository: body.Repository, Branch: body.Branch, Path: body.Path}
	if err := checkGitSource(source); err != nil {
		return wire.App{}, err
	}
	a, err := s.change(ctx, in, func(a *app.App) error {
		if a.GitSource == nil || *a.GitSource != source {
			a.GitSource, a.UpdatedAt = &source, s.storeTime()
		}
		return nil
	})
	return s.wireApp(a), err
}

func (s *Service) removeGitSource(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	_, err := s.change(ctx, in, func(a *app.App) error {
		if a.GitSource == nil {
			return problem.New(problem.NotFound, "The app has no git source.")
		}
		a.GitSource, a.UpdatedAt = nil, s.storeTime()
		return nil
	})
	return api.None{}, err
}

// checkGitSource returns an invalid_git_source problem unless the source has a valid clone URL,
// branch and folder. It rejects text that git could read as an option or a command, and
// credentials, which all viewers could see.
func checkGitSource(g app.GitSource) error {
	var wrong []error
	for _, f := range []struct {
		name, is string
		valid    bool
	}{
		{"repository", "a clone URL over https, http or ssh, without a password", validRepository(g.Repository)},
		{"branch", "the name of a branch, such as main", validBranch(g.Branch)},
		{"path", "a folder inside the repository, such as services/api", validFolder(g.Path)},
	} {
		if !f.valid {
			wrong = append(wrong, problem.ForField(f.name, problem.New(problem.InvalidSource, "git_source.%s must be %s.", f.name, f.is)))
		}
	}
	return problem.Join(wrong...)
}

func validRepository(s string) bool {
	if len(s) > maxRepository || !visible(s) {
		return false
	}
	if !strings.Contains(s, "://") {
		return scpRepository.MatchString(s)
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || strings.HasPrefix(u.Host, "-") || strings.Trim(u.Path, "/") == "" || u.Fragment != "" || u.RawQuery != "" {
		return false
	}
	_, password := u.User.Password()
	switch u.Scheme {
	case "https", "http":
		return u.User == nil
	case "ssh":
		return !password && !strings.HasPrefix(u.User.Username(), "-")
	}
	return false
}

// validBranch applies the rules of git-check-ref-format.
func validBranch(s string) bool {
	if s == "" || len(s) > maxBranch || !visible(s) || s == "@" || strings.HasPrefix(s, "-") {
		return false
	}
	for _, never := range []string{"..", "@{", "//", "~", "^", ":", "?", "*", "[", "\\"} {
		if strings.Contains(s, never) {
			return false
		}
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.HasSuffix(s, ".")
}

func validFolder(s string) bool {
	if s == "" {
		return true
	}
	return len(s) <= maxPath && visible(s) && !strings.Contains(s, "\\") && !strings.HasPrefix(s, "-") &&
		!path.IsAbs(s) && path.Clean(s) == s && s != "." && s != ".." && !strings.HasPrefix(s, "../")
}

// visible reports whether s is visible ASCII without characters that are special to a shell or to
// Tekton: custom pipelines get it as a parameter.
func visible(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || strings.IndexByte("$`'\"\\;|&<>(){}", c) >= 0 {
			return false
		}
	}
	return true
}
