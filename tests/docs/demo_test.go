package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// demonstrate runs a script of the demos in a place of its own, and returns its output. The script
// must end well, and neither it nor phosd may say anything that looks like an error.
func demonstrate(t *testing.T, script string, variables ...string) string {
	t.Helper()
	p := newPlace(t)
	demo := p.enter("root", "exec "+script)
	demo.Env = append(append(demo.Env, "CRIU="+p.criu, "CRIU_MISSING=", "PHOS_CACHE=/tmp"), variables...)
	said, err := demo.CombinedOutput()
	t.Logf("%s", said)
	if err != nil {
		t.Fatal(err)
	}
	logs := string(said) + p.do("cat /var/log/phosd.log 2>/dev/null || true")
	wrong := regexp.MustCompile(`(?i).*(no such file|not empty|expected|error|skip).*`)
	if line := wrong.FindString(logs); line != "" {
		t.Errorf("the demo says %q", line)
	}
	return string(said)
}

// TestDemo runs the demo, with fewer steps. Each checkpoint shows its phases in their order, and
// how much was written.
func TestDemo(t *testing.T) {
	python, err := harness.Tool("TINYGRAD_PYTHON")
	harness.Need(t, "tinygrad", err)
	said := demonstrate(t, "scripts/demo.sh", "DEMO_STEPS=150", "TINYGRAD_PYTHON="+python)
	if !strings.Contains(said, "every line of its log and every bit of its weights are those") {
		t.Error("the demo does not say how it ended")
	}
	saved := regexp.MustCompile(`(?s)\$ pos_cli --pre-dump [^\n]*\n(.*?)generation \d+: paused `).FindAllStringSubmatch(said, -1)
	if len(saved) != 2 {
		t.Fatalf("the demo shows %d checkpoints, want 2", len(saved))
	}
	for _, match := range saved {
		checkProgress(t, match[1])
	}
}

// checkProgress checks the lines between the command of a checkpoint and its result.
func checkProgress(t *testing.T, text string) {
	t.Helper()
	phases := []string{
		"copying while the program runs", "waiting for the GPU to be idle", "paused, copying what changed",
		"writing the image",
	}
	last, lines := 0, strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ":")
		phase := slices.Index(phases, name)
		if phase < last {
			t.Errorf("%q stands behind %q:\n%s", line, phases[last], text)
		}
		last = max(last, phase)
	}
	var done, total string
	if end := lines[len(lines)-1]; strings.HasPrefix(end, phases[3]+": ") {
		done, total, _ = strings.Cut(strings.TrimPrefix(end, phases[3]+": "), " of ")
		total, _, _ = strings.Cut(total, ",")
	}
	if done == "" || done != total {
		t.Errorf("the last line does not say how much was written:\n%s", text)
	}
}

// TestRanks runs the demo of two ranks.
func TestRanks(t *testing.T) {
	if said := demonstrate(t, "scripts/demo-ranks.sh"); !strings.Contains(said, "restored as one job: every bit") {
		t.Error("the demo does not say how it ended")
	}
}
