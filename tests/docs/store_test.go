package docs

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// keysFile has the keys of what a cluster stores.
const keysFile = "cluster/record/key.go"

// versionFiles are the files with the constant of a version, by the keys of such objects.
var versionFiles = map[string]string{
	"cluster": "cluster/record/cluster.go", "controllers/": "cluster/record/controller.go",
	"launches/": "cluster/record/launch.go", "nodes/": "cluster/record/node.go",
	"ca": "cluster/identity/authority/record.go", "tokens/join/": "cluster/identity/token/joinrecord.go",
	"tokens/user/": "cluster/identity/token/joinrecord.go",
}

// TestStore: docs/store.md has each key of the store, with the version that is written.
func TestStore(t *testing.T) {
	page := source(t, "docs/store.md")
	keys := regexp.MustCompile(`(?m)(?:Prefix|Key) += "([^"]+)"`).FindAllStringSubmatch(source(t, keysFile), -1)
	if len(keys) < len(versionFiles) {
		t.Fatalf("%s has %d keys", keysFile, len(keys))
	}
	for _, match := range keys {
		checkStored(t, page, match[1])
	}
	prefix := regexp.MustCompile(`DefaultPrefix = "([^"]+)"`).FindStringSubmatch(source(t, "cluster/store/etcd/config.go"))
	if !strings.Contains(page, "`"+prefix[1]+"/objects/`") || !strings.Contains(page, "`"+prefix[1]+"/leader`") {
		t.Errorf("docs/store.md does not say where the keys are: %s", prefix[1])
	}
}

// checkStored wants a row of the page for a key.
func checkStored(t *testing.T, page, key string) {
	t.Helper()
	file, known := versionFiles[key]
	if !known {
		t.Errorf("name the file with the version of %s in versionFiles", key)
		return
	}
	version := regexp.MustCompile(`(?m)^const \w+Version = (\d+)`).FindStringSubmatch(source(t, file))
	if version == nil {
		t.Fatalf("%s has no version", file)
	}
	row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| `%s[A-Z]*` \\| %s \\|", regexp.QuoteMeta(key), version[1]))
	if !row.MatchString(page) {
		t.Errorf("docs/store.md has no row for %s of version %s", key, version[1])
	}
}

// source returns the text of a file of the repository.
func source(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(harness.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
