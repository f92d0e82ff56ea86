package versioned

import (
	"errors"
	"strings"
	"testing"
)

type sample struct {
	Version int    `json:"version"`
	Name    string `json:"name,omitempty"`
}

func TestRoundTrip(t *testing.T) {
	want := sample{2, "a"}
	text, err := Encode(want)
	if err != nil || string(text) != "{\n  \"version\": 2,\n  \"name\": \"a\"\n}\n" {
		t.Fatalf("%s, %v", text, err)
	}
	var got sample
	if err := Decode(text, 2, &got); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	if err := Decode(text, 3, &got); err != nil {
		t.Errorf("by a program that knows version 3: %v", err)
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]error{
		``:                                 ErrDamaged,
		`null`:                             ErrDamaged,
		`[]`:                               ErrDamaged,
		`{}`:                               ErrDamaged,
		`{"name":"a"}`:                     ErrDamaged,
		`{"version":0}`:                    ErrDamaged,
		`{"version":-1}`:                   ErrDamaged,
		`{"version":"1"}`:                  ErrDamaged,
		`{"version":1.5}`:                  ErrDamaged,
		`{"version":99999999999999999999}`: ErrDamaged,
		`{"version":1,"other":1}`:          ErrDamaged,
		`{"version":1}{}`:                  ErrDamaged,
		`{"version":1}]`:                   ErrDamaged,
		`{"version":1,"name":5}`:           ErrDamaged,
		strings.Repeat(" ", MaxBytes):      ErrDamaged,
		`{"version":1}` + strings.Repeat(" ", 1e6): ErrDamaged,
		`{"version":2}`: ErrNewer,
		`{"version":2,"shape":{"unknown":"too"}}`: ErrNewer,
	} {
		var got sample
		if err := Decode([]byte(text), 1, &got); !errors.Is(err, want) || len(err.Error()) > 200 {
			t.Errorf("%.60q: %v, want %v", text, err, want)
		}
	}
}
