package boot

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReadConfig(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       error
	}{
		{"empty pipe", "", io.EOF},
		{"truncated", `{"session": 1`, io.ErrUnexpectedEOF},
		{"valid", `{"session": 1, "gpus": "soft:1"}`, nil},
	} {
		if _, err := ReadConfig(strings.NewReader(test.text)); !errors.Is(err, test.want) {
			t.Errorf("%s: got error %v, want %v", test.name, err, test.want)
		}
	}
	if _, err := ReadConfig(strings.NewReader(`{"sesion": 1}`)); err == nil {
		t.Error("unknown field: got no error")
	}
}
