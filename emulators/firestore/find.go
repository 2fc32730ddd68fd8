package firestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	jarVariable = "FIRESTORE_EMULATOR_JAR"
	jarInCLI    = "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
	minJava     = 11
	askLimit    = 30 * time.Second
)

// ErrNoJar is returned if the emulator is not installed.
var ErrNoJar = errors.New("no Firestore emulator found: install the Google Cloud CLI's component " +
	"(apt-get install google-cloud-cli-firestore-emulator, or gcloud components install cloud-firestore-emulator) " +
	"or set " + jarVariable + " to cloud-firestore-emulator.jar")

// Jar returns $FIRESTORE_EMULATOR_JAR, or the file in a usual folder of the Google Cloud CLI or
// in the folder that gcloud reports.
func Jar(ctx context.Context) (string, error) {
	if jar := os.Getenv(jarVariable); jar != "" {
		if !isFile(jar) {
			return "", fmt.Errorf("%s is %q, which is not a file", jarVariable, jar)
		}
		return jar, nil
	}
	for _, root := range roots() {
		if jar := filepath.Join(root, jarInCLI); isFile(jar) {
			return jar, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "gcloud", "info", "--format=value(installation.sdk_root)").Output()
	if err != nil {
		return "", ErrNoJar
	}
	jar := filepath.Join(strings.TrimSpace(string(out)), jarInCLI)
	if !isFile(jar) {
		return "", ErrNoJar
	}
	return jar, nil
}

func roots() []string {
	list := []string{
		"/usr/lib/google-cloud-sdk",
		"/usr/share/google-cloud-sdk",
		"/opt/google-cloud-sdk",
		"/snap/google-cloud-cli/current",
		"/opt/homebrew/share/google-cloud-sdk",
	}
	if home, err := os.UserHomeDir(); err == nil {
		list = append(list, filepath.Join(home, "google-cloud-sdk"))
	}
	return list
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// CheckJava returns an error if Java cannot run the emulator.
func CheckJava(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("the Firestore emulator needs Java %d or later on the path: %w", minJava, err)
	}
	major, err := javaMajor(string(out))
	if err != nil {
		return err
	}
	if major < minJava {
		return fmt.Errorf("the Firestore emulator needs Java %d or later, but this is Java %d", minJava, major)
	}
	return nil
}

// javaMajor returns 17 for `version "17.0.15"`, and 8 for the old form `version "1.8.0_392"`.
func javaMajor(out string) (int, error) {
	m := regexp.MustCompile(`version "(?:1\.)?(\d+)`).FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("java -version printed no version: %q", out)
	}
	return strconv.Atoi(m[1])
}
