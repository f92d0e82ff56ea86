package recipe

import (
	"reflect"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	const document = `# Title

<!-- recipe: start -->

    one \
        two

    three

Text.

<!-- file: /etc/a.conf -->

    x = 1
<!-- recipe: next -->

    last
`
	got, err := Read(strings.NewReader(document))
	want := []Block{
		{Name: "start", Text: "one \\\n    two\n\nthree\n"},
		{Name: "/etc/a.conf", File: true, Text: "x = 1\n"},
		{Name: "next", Text: "last\n"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, wrong := range []string{"text\n\n    command\n", "<!-- recipe: a -->\ntext\n"} {
		if got, err := Read(strings.NewReader(wrong)); err == nil {
			t.Errorf("%q: got %+v, want an error", wrong, got)
		}
	}
}
