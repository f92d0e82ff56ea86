package fdpass

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

func TestOutcome(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	kinds := Kinds{{"one", first}, {"two", second}}
	for _, test := range []struct {
		err  error
		is   error
		sent string
	}{
		{nil, nil, `{}`},
		{fmt.Errorf("seen: %w", second), second, `{"error":"seen: second","kind":"two"}`},
		{errors.Join(second, first), first, `{"error":"second\nfirst","kind":"one"}`},
		{errors.New("strange"), nil, `{"error":"strange"}`},
	} {
		sent, err := json.Marshal(kinds.Outcome(test.err))
		if err != nil || string(sent) != test.sent {
			t.Errorf("%v is sent as %s, %v", test.err, sent, err)
		}
		var outcome Outcome
		if err := json.Unmarshal(sent, &outcome); err != nil {
			t.Fatal(err)
		}
		got := kinds.Err(outcome)
		if (got == nil) != (test.err == nil) || got != nil && got.Error() != test.err.Error() {
			t.Errorf("%v arrives as %v", test.err, got)
		}
		for _, kind := range kinds {
			if errors.Is(got, kind.Err) != errors.Is(kind.Err, test.is) {
				t.Errorf("%v arrives as %s: %v", test.err, kind.Name, errors.Is(got, kind.Err))
			}
		}
	}
}
