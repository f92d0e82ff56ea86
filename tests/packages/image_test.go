package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/recipe"
)

const document = "docs/packages.md"

// recipes returns the commands of the document, by name. There are no others than those that tests
// run: TestLifecycle runs "install", TestImage "image".
func recipes(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open(harness.Path(document))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	blocks, err := recipe.Read(file)
	if err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	found := map[string]string{}
	for _, block := range blocks {
		found[block.Name] = block.Text
	}
	if len(blocks) != 2 || found["install"] == "" || found["image"] == "" {
		t.Fatalf("%s: got %+v, want the commands install and image", document, blocks)
	}
	return found
}

// withoutPrivileges are the options that the document gives instead of --privileged.
var withoutPrivileges = regexp.MustCompile("`--privileged` can be replaced by `(--cap-add [^`]*)`")

// TestImage loads the image into dockerd, and a program computes in a container of it, as
// docs/packages.md says.
func TestImage(t *testing.T) {
	dist := packages(t)
	image, err := harness.Tool("PACKAGE_IMAGE")
	harness.Need(t, "packages", err)
	_, err = exec.LookPath("dockerd")
	harness.Need(t, "packages", err)
	text, err := os.ReadFile(harness.Path(document))
	if err != nil {
		t.Fatal(err)
	}
	options := withoutPrivileges.FindSubmatch(text)
	if options == nil || filepath.Dir(image) != dist {
		t.Fatalf("%s has no options instead of --privileged, or %s is not in %s", document, image, dist)
	}
	command := exec.CommandContext(
		t.Context(), "unshare", "--mount", "--pid", "--ipc", "--uts", "--net", "--fork", "--kill-child", "--mount-proc",
		"bash", testdata("image.sh"), t.TempDir(), dist, write(t, "commands", recipes(t)["image"]),
		strings.Join(strings.Fields(string(options[1])), " "), program(t),
	)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Log(string(output))
}
