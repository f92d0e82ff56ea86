package localapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline/progress"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestTrainings: the last word of a launch's own processes is kept, and how old it is.
func TestTrainings(t *testing.T) {
	l := newLab(t)
	const path = "/v1/launches/l-1/training"
	if said, _ := l.node.Find("l-1"); said != nil {
		t.Errorf("before the first word: %q", said)
	}
	for _, word := range []string{`{"step": 1}`, `{"step": 2}`} {
		if status, body := l.send(http.MethodPut, path, word, -1); status != http.StatusOK {
			t.Errorf("%d: %s", status, body)
		}
		if said, age := l.node.Find("l-1"); string(said) != word || age < 0 || age > time.Minute {
			t.Errorf("kept is %q of %v ago, want %q", said, age, word)
		}
	}
	long := strings.Repeat("x", progress.MaxBytes+1)
	if status, body := l.send(http.MethodPut, path, long, -1); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a word that is too long: %d, %s", status, body)
	}
	if said, _ := l.node.Find("l-1"); string(said) != `{"step": 2}` {
		t.Errorf("after that, kept is %.50q", said)
	}
	if status, _ := l.send(http.MethodPut, "/v1/launches/l-2/training", "{}", -1); status != http.StatusNotFound {
		t.Errorf("for a launch without processes: %d", status)
	}
	l.node.ForgetTraining("l-1")
	if said, _ := l.node.Find("l-1"); said != nil {
		t.Errorf("after the end: %q", said)
	}
}

// TestTrainingsOfOthers: a user, and root without processes of the launch, say nothing for others.
func TestTrainingsOfOthers(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	l := newLab(t)
	l.node.uid = 1000
	for uid, want := range map[int]int{1000: http.StatusOK, 0: http.StatusNotFound, 1001: http.StatusNotFound} {
		if status, body := l.send(http.MethodPut, "/v1/launches/l-1/training", "{}", uid); status != want {
			t.Errorf("user %d: %d, %s; want %d", uid, status, body, want)
		}
	}
}
