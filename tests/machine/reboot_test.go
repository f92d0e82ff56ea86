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

// TestReboot: images outlive the machine's own end. What was saved comes back with /run empty, also
// where its pids are taken.
func TestReboot(t *testing.T) {
	m := boot(t)
	m.jobs()
	low := m.job("low", "root")
	low.asUnit("low", "ExecStop=/usr/local/bin/pos_cli --dump --dir "+low.dir+"/image --pid $MAINPID")
	low.reaches(10)
	m.highPIDs()
	high, other := m.job("high", "root"), m.job("other", user)
	// The one saves itself when its unit is stopped; the others are saved before.
	for _, j := range []*job{low, high, other} {
		if j != low {
			j.login()
		}
		j.cli("--pre-dump --dir", j.dir+"/image", "--pid", j.pid())
		j.goesOn()
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
		j.goesOn()
	}
	for _, j := range []*job{low, high, other} {
		j.ends()
	}
	m.eventually("the unit has the program's status", "[ $(systemctl show --property=ExecMainStatus --value back) = 7 ]")
	// An earlier generation is as good, and once more in the same place.
	high.cli("--restore --detach --generation 1 --dir", high.dir+"/image")
	high.ends()
}

// TestPowerCut: the power goes while checkpoints are taken. Afterwards each generation is there as
// a whole or not at all, and all are there of which it was said.
func TestPowerCut(t *testing.T) {
	m := boot(t)
	m.jobs()
	m.run("sync") // what the machine was given is there to stay
	for i, moment := range fewMoments {
		m.highPIDs()
		j := m.job(fmt.Sprint("job", i), "root")
		where := j.dir + "/image"
		j.login()
		complete := 0
		if i > 0 {
			j.cli("--pre-dump --dir", where, "--pid", j.pid())
			complete++
		}
		complete += m.savesUntilCut(j, where, 3*time.Second+moment)
		m.start()
		newest := m.newest(where)
		t.Logf("after %v: %d were said to be complete, %d is the newest", moment, complete, newest)
		if newest < complete {
			t.Fatal("an image that was complete is not there")
		}
		if newest == 0 {
			continue
		}
		t.Log(m.run("pos_cli image verify " + where))
		for generation := newest; generation > 0; generation = min(generation, 2) - 1 {
			j.cli("--restore --detach --generation", generation, "--dir", where)
			j.goesOn()
			j.ends()
		}
	}
}

// savesUntilCut takes checkpoints until the power goes, and counts those that were said to be
// complete.
func (m *machine) savesUntilCut(j *job, where string, after time.Duration) (complete int) {
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

// newest is the number of the newest generation; 0: there is none.
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
