package hostile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"
)

// named is a program with a name, and a file, that control a terminal.
const named = onGPU + `
open("/proc/self/comm", "w").write("\x1b[2J\u009b")
log = open("\x1b]0;mine\a\u009b2J\nforged", "a")
log.write("begin"); log.flush()
ready()
`

// TestTextsControlNoTerminal: alice's program, its file and its image directory have names that
// would control the terminal of an administrator who looks at them, or forge lines of phosd's log.
func TestTextsControlNoTerminal(t *testing.T) {
	a, d := alice(t), start(t, "--log-format=json")
	program := a.programIn(d, "program", "", named)
	image := a.file("image\x1b[2J\u009b\nlevel=ERROR")
	var said strings.Builder
	tell := func(arguments ...string) error {
		text, err := run(t, d.Command(arguments...))
		said.WriteString(text)
		return err
	}
	first := tell("--pre-dump", "--dir", image, "--pid", pid(program))
	taken := tell("--restore", "--detach", "--dir", image)
	if err := errors.Join(first, tell("ps"), tell("--status"), tell("images", image), tell("image", "show", image),
		unix.Kill(program.Process.Pid, unix.SIGKILL)); err != nil || taken == nil {
		t.Fatalf("%v, %v: %s", err, taken, said.String())
	}
	waitFor(t, "the program has ended", func() bool { return unix.Kill(program.Process.Pid, 0) != nil })
	file := filepath.Join(program.Dir, "\x1b]0;mine\a\u009b2J\nforged")
	if err := os.WriteFile(file, []byte("begin, and more"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tell("--restore", "--detach", "--dir", image),
		tell("--dump", "--dir", image, "--pid", pid(program))); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	log, err := os.ReadFile(d.Log)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"pos_cli": said.String(), "the log": string(log)} {
		if controls := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); controls >= 0 {
			t.Errorf("%s: %q controls the terminal", what, text[max(0, controls-200):min(len(text), controls+40)])
		}
		for line := range strings.Lines(text) {
			if what == "the log" && !strings.HasPrefix(line, "{") || strings.HasPrefix(line, "level=") ||
				strings.HasPrefix(line, "forged") {
				t.Errorf("%s: %q is forged", what, line)
			}
		}
	}
}
