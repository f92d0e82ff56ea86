package docs

import (
	"debug/elf"
	"fmt"
	"strings"
	"testing"
)

// TestInstalled: what is installed has no symbols for debuggers, and its stack traces still name
// functions and lines. A log of the installation has each step when it begins, too.
func TestInstalled(t *testing.T) {
	p := newPlace(t)
	log := p.do("./build.sh install")
	began, ended := strings.Index(log, "begin   build libphos.so\n"), strings.Index(log, "ok      build libphos.so (")
	if began < 0 || ended < began {
		t.Errorf("the log does not say what runs before it has ended:\n%s", log)
	}
	for _, name := range []string{"phosd", "pos_cli"} {
		program, err := elf.Open(fmt.Sprintf("/proc/%d/root/usr/local/bin/%s", p.init, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{".symtab", ".debug_info"} {
			if program.Section(section) != nil {
				t.Errorf("%s has %s", name, section)
			}
		}
		_ = program.Close()
	}
	said := p.do(`phosd --gpus soft:1 2>/tmp/trace &
		until pos_cli --status >/dev/null 2>&1; do sleep 0.05; done
		kill -QUIT $!; wait $! || cat /tmp/trace`)
	if !strings.Contains(said, "daemon/phosd/") || !strings.Contains(said, ".go:") {
		t.Errorf("phosd's stack trace names no line:\n%s", said)
	}
}
