package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// module is what the functions are part of; its path is where the sources are.
const module = "github.com/sluicegate/sluice"

// source is what the images are made from.
type source struct {
	revision string    // commit; "" outside a checkout
	version  string    // the last tag and what came after it, e.g. "v1.4.0-3-gdc24a87"; "" outside a checkout
	at       time.Time // of the commit or $SOURCE_DATE_EPOCH; the epoch when neither is known
	licence  string    // SPDX expression of the repository's LICENSE; "" without one
}

// tag is the tag that images get when none is asked for.
func (s source) tag() string {
	if s.version == "" {
		return "latest"
	}
	return regexp.MustCompile(`[^0-9A-Za-z_.-]`).ReplaceAllString(s.version, "-")
}

// readSource asks git. Outside of a checkout, in an unpacked archive, what only git
// knows is left out of the images.
func readSource(ctx context.Context) (source, error) {
	src := source{at: time.Unix(0, 0).UTC()}
	if text, err := os.ReadFile("LICENSE"); err == nil {
		src.licence = identify(text)
	}
	if _, err := os.Stat(".git"); err == nil {
		if _, err := exec.LookPath("git"); err == nil {
			if err := src.readGit(ctx); err != nil {
				return source{}, err
			}
		}
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		return src, nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	src.at = time.Unix(seconds, 0).UTC()
	return src, nil
}

func (s *source) readGit(ctx context.Context) error {
	commit, err := output(ctx, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	version, err := output(ctx, "git", "describe", "--tags", "--always", "--dirty")
	if err != nil {
		return err
	}
	revision, at, _ := strings.Cut(strings.TrimSpace(string(commit)), " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("time of the commit: %w", err)
	}
	s.revision, s.version, s.at = revision, strings.TrimSpace(string(version)), time.Unix(seconds, 0).UTC()
	return nil
}

// labels are an image's labels and annotations, with the names that OCI gives them.
// What is not known is left out.
func (s source) labels(function string) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":       "sluice-" + function,
		"org.opencontainers.image.description": "Sluice's function " + function,
		"org.opencontainers.image.source":      "https://" + module,
		"org.opencontainers.image.revision":    s.revision,
		"org.opencontainers.image.version":     s.version,
		"org.opencontainers.image.licenses":    s.licence,
		"org.opencontainers.image.created":     s.at.Format(time.RFC3339),
	}
	for key, value := range all {
		if value == "" {
			delete(all, key)
		}
	}
	return all
}
