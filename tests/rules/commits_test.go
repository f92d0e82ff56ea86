package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// firstChecked is the commit after which the rule holds.
	firstChecked = "ba53c2e93570e8206c22f1c4bbfaca01c251891f"
	// subjectWidth is how long the subject of a commit may be.
	subjectWidth = 65
	// exemptCommits lists commits that the rule came too late for: hash and subject.
	exemptCommits = "testdata/commits.exempt"
)

// TestCommits: each commit has a subject of at most 65 characters, and a body that says why. Merges
// need neither.
func TestCommits(t *testing.T) {
	if git(t, "rev-parse", "--is-shallow-repository") != "false" {
		t.Skip("a shallow clone has no history to check")
	}
	exempt := exempted(t)
	for record := range strings.SplitSeq(git(t, "log", "--no-merges", "--format=%H%x00%s%x00%b%x01", firstChecked+"..HEAD"), "\x01") {
		fields := strings.Split(strings.TrimSpace(record), "\x00")
		if len(fields) != 3 || exempt[fields[0]] {
			continue
		}
		hash, subject, body := fields[0][:12], fields[1], fields[2]
		if n := utf8.RuneCountInString(subject); n > subjectWidth {
			t.Errorf("%s: the subject has %d characters of at most %d: %s", hash, n, subjectWidth, subject)
		}
		if strings.TrimSpace(body) == "" {
			t.Errorf("%s: the body is empty; it says why: %s", hash, subject)
		}
	}
}

// git returns what git says about this repository. Without git, or outside of a clone, the test is
// skipped.
func git(t *testing.T, arguments ...string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("not a clone: ", err)
	}
	said, err := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", root}, arguments...)...).Output()
	if err != nil {
		t.Skipf("git %s: %v", strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(string(said))
}

// exempted returns the hashes of exemptCommits.
func exempted(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(exemptCommits)
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if hash, _, _ := strings.Cut(strings.TrimSpace(line), " "); hash != "" {
			hashes[hash] = true
		}
	}
	return hashes
}
