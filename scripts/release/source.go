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

// module is the module path of this repository, which is also its address.
const module = "github.com/sluicegate/sluice"

// source describes the sources that a build uses.
type source struct {
	revision string    // commit; "" outside a checkout
	version  string    // output of git describe, for example "v1.4.0-3-gdc24a87"; "" outside a checkout
	release  string    // version of a release, for example "v2.1.0"; "" for other builds
	at       time.Time // time of the commit, or SOURCE_DATE_EPOCH; the epoch if neither is known
	license  string    // SPDX expression for the file LICENSE; "" if there is none
}

// tag returns the default tag of images.
func (s source) tag() string {
	if s.version == "" {
		return "latest"
	}
	return regexp.MustCompile(`[^0-9A-Za-z_.-]`).ReplaceAllString(s.version, "-")
}

// readSource describes the current folder. Outside a checkout, for example in an unpacked
// archive, the fields that come from git stay empty.
func readSource(ctx context.Context) (source, error) {
	src := source{at: time.Unix(0, 0).UTC()}
	if text, err := os.ReadFile("LICENSE"); err == nil {
		src.license = identify(text)
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
		return fmt.Errorf("parse time of commit: %w", err)
	}
	s.revision, s.version, s.at = revision, strings.TrimSpace(string(version)), time.Unix(seconds, 0).UTC()
	return nil
}

// labels returns the labels and annotations of an image, by their OCI names. It omits those
// without a value.
func (s source) labels(function string) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":       "sluice-" + function,
		"org.opencontainers.image.description": "Sluice's function " + function,
		"org.opencontainers.image.source":      "https://" + module,
		"org.opencontainers.image.revision":    s.revision,
		"org.opencontainers.image.version":     s.version,
		"org.opencontainers.image.licenses":    s.license,
		"org.opencontainers.image.created":     s.at.Format(time.RFC3339),
	}
	for key, value := range all {
		if value == "" {
			delete(all, key)
		}
	}
	return all
}
