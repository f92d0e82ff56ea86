package machine

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestReboot: images survive a reboot. They can be restored with /run empty, and with other pids if
// the old ones are in use.
func TestReboot(t *testing.T) {
	m := boot(t)
	m.jobs()
	low := m.job("low", "root")
	low.asUnit("low", "ExecStop=/usr/local/bin/pos_cli --dump --dir "+low.dir+"/image --pid $MAINPID")
	low.waitSteps(10)
	m.highPIDs()
	high, other := m.job("high", "root"), m.job("other", user)
	// One unit saves itself when it is stopped; the others are saved before.
	for _, j := range []*job{low, high, other} {
		if j != low {
			j.login()
		}
		j.cli("--pre-dump --dir", j.dir+"/image", "--pid", j.pid())
		j.waitProgress()
	}
	high.cli("--dump --dir", high.dir+"/image", "--pid", high.pid())
	other.cli("--dump --dir", other.dir+"/image", "--pid", other.pid())
	m.restart()
	t.Log(m.run("journalctl --no-pager -b -1 -u low -n 20"))
	m.run("[ -z \"$(ls /run/phos/sessions)\" ]; [ -z \"$(pgrep -x count)\" ]")
	for _, j := range []*job{high, other} {
		t.Log(j.cli("--restore --detach --dir", j.dir+"/image"))
	}
	m.run("systemd-run --unit=back pos_cli --restore --new-pids --dir " + low.dir + "/image")
	for _, j := range []*job{low, high, other} {
		j.waitProgress()
	}
	for _, j := range []*job{low, high, other} {
		j.finishAndCompare()
	}
	m.eventually("the unit has the program's status", "[ $(systemctl show --property=ExecMainStatus --value back) = 7 ]")
	// An earlier generation can be restored in the same place too.
	high.cli("--restore --detach --generation 1 --dir", high.dir+"/image")
	high.finishAndCompare()
}

// TestPowerCut: the power fails during checkpoints. Afterwards each generation is whole or absent,
// and all that were reported as complete exist.
func TestPowerCut(t *testing.T) {
	m := boot(t)
	m.jobs()
	m.run("sync") // the files copied to the machine must survive the power cut
	for i, delay := range checkpointDelays {
		m.highPIDs()
		j := m.job(fmt.Sprint("job", i), "root")
		where := j.dir + "/image"
		j.login()
		complete := 0
		if i > 0 {
			j.cli("--pre-dump --dir", where, "--pid", j.pid())
			complete++
		}
		complete += m.checkpointUntilCut(j, where, 3*time.Second+delay)
		m.start()
		newest := m.newest(where)
		t.Logf("after %v: %d generations reported complete, newest is %d", delay, complete, newest)
		if newest < complete {
			t.Fatal("a complete generation is missing")
		}
		if newest == 0 {
			continue
		}
		t.Log(m.run("pos_cli image verify " + where))
		for generation := newest; generation > 0; generation = min(generation, 2) - 1 {
			j.cli("--restore --detach --generation", generation, "--dir", where)
			j.waitProgress()
			j.finishAndCompare()
		}
	}
}

// checkpointUntilCut takes checkpoints until the power fails, and counts those reported as
// complete.
func (m *machine) checkpointUntilCut(j *job, where string, after time.Duration) (complete int) {
	m.t.Helper()
	script := fmt.Sprintf("while pos_cli --pre-dump --dir %s --pid %d; do :; done", where, j.pid())
	command := m.shell(m.t.Context(), "root", script, apart)
	var said bytes.Buffer
	command.Stdout = &said
	if err := command.Start(); err != nil {
		m.t.Fatal(err)
	}
	time.Sleep(after)
	m.cutPower()
	_ = command.Process.Kill()
	_ = command.Wait()
	return strings.Count(said.String(), "generation ")
}

// newest returns the number of the newest generation; 0 if there is none.
func (m *machine) newest(where string) (generation int) {
	m.t.Helper()
	said := m.run("[ ! -e " + where + " ] || pos_cli image list --json " + where)
	for _, found := range regexp.MustCompile(`"generation": *"?(\d+)`).FindAllStringSubmatch(said, -1) {
		if n, err := strconv.Atoi(found[1]); err == nil {
			generation = max(generation, n)
		}
	}
	return generation
}
