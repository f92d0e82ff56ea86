package eventlog

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestDocument: docs/events.md has each kind, each reason and each key.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	words := []string{
		string(ForJob), string(Reallocation), string(NodeDrained), string(JobFailed), string(NodeLost),
		string(Overtakes), Name,
	}
	for _, kind := range []Kind{
		Arrive, Reject, Hold, Admit, Promise, Start, Resume, Migrate, Grow, Shrink, Restart, Preempt, Fail, Finish, GiveUp,
		Withdraw, Down, Up, Drain, End, Adopt, Work, Refuse, Keep, GiveBack, Cordon, Occupy, Vacate, Choose,
	} {
		words = append(words, string(kind))
	}
	for _, phase := range []Phase{Held, Waiting, Running} {
		words = append(words, string(phase))
	}
	for _, of := range []reflect.Type{reflect.TypeFor[headerLine](), reflect.TypeFor[nodeLine](), reflect.TypeFor[eventLine]()} {
		for i := range of.NumField() {
			key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			words = append(words, key)
		}
	}
	for _, word := range words {
		if !strings.Contains(string(text), "`"+word+"`") {
			t.Errorf("%s is not in docs/events.md", word)
		}
	}
}
