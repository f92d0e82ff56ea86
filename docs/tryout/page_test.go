package tryout

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPage checks that the Go code of docs/scheduling.md is that of this folder, which is compiled
// and tested.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../scheduling.md")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range []string{"tryout.go", "tryout_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(text))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	whole := false
	for _, block := range blocks {
		whole = whole || block[1] == files[0]
		if !strings.Contains(files[0], block[1]) && !strings.Contains(files[1], block[1]) {
			t.Errorf("docs/scheduling.md has code that is in no file:\n%s", block[1])
		}
	}
	if !whole {
		t.Error("docs/scheduling.md does not contain tryout.go")
	}
	if lines := strings.Count(files[0], "\n"); lines >= 50 {
		t.Errorf("the example has %d lines, want fewer than 50", lines)
	}
}
