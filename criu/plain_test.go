package criu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// counting checks itself: its memory must be consistent with its progress.
const counting = `
import threading, signal
state = {'n': 0}
def count():
    while not os.path.exists('enough'):
        state['n'] += 1
        time.sleep(0.001)
thread = threading.Thread(target=count); thread.start()
ring = list(range(100000))
signal.signal(signal.SIGUSR1, lambda *a: say('signal'))
os.umask(0o027)
before = state['n']
step('one')
assert state['n'] >= before, (state, before)
assert ring == list(range(100000))
assert os.environ['MARK'] == 'kept' and os.umask(0o022) == 0o027
say('cwd', os.getcwd() == os.environ.get('PWD', os.getcwd()))
open('enough', 'w').close()
thread.join()
say('done')
sys.exit(7)
`

func TestDumpAndResume(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), counting))
	s.says("at one")
	s.save(cpu, false)
	s.allow("one")
	s.says("done")
}

func TestDumpAndRestore(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), counting))
	s.says("at one")
	saved := s.save(cpu, true)
	back := saved.restore(t, cpu, saved.order(t))
	s.allow("one")
	ends(t, back, 7)
	s.says("done")
}

// TestCheck: Check succeeds for a CRIU that works.
func TestCheck(t *testing.T) {
	if err := newCPU(t).Check(within(t)); err != nil {
		t.Error(err)
	}
}

// TestPluginsNotLoaded: CRIU's installed plugins are not loaded. This one is not a library, so
// loading it would fail.
func TestPluginsNotLoaded(t *testing.T) {
	newCPU(t)
	plugins := filepath.Join(t.TempDir(), "criu")
	if err := os.Mkdir(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(plugins, "gpus.so"), []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	const within = `mount -t overlay overlay -o lowerdir="$1:/usr/lib" /usr/lib || exit 99; exec "$2" -test.run='^TestDumpAndResume$' -test.v`
	command := exec.Command("unshare", "--mount", "sh", "-c", within, "sh", filepath.Dir(plugins), os.Args[0])
	output, err := command.CombinedOutput()
	if command.ProcessState.ExitCode() == 99 {
		t.Skipf("overlays cannot be mounted here: %s", output)
	}
	if err != nil || !strings.Contains(string(output), "--- PASS") {
		t.Errorf("%v\n%s", err, output)
	}
}
