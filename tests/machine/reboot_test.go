package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestReboot: images outlive the machine's own end. What was saved comes back with /run empty, also where its pids are taken.
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

// TestPowerCut: the power goes while checkpoints are taken. Afterwards each generation is there as a whole or not at all.
func TestPowerCut(t *testing.T) {
	m := boot(t)
	m.jobs()
	m.highPIDs()
	for i, moment := range fewMoments {
		j := m.job(fmt.Sprint("job", i), "root")
		where := j.dir + "/image"
		j.login()
		complete := 0
		if i > 0 {
			j.cli("--pre-dump --dir", where, "--pid", j.pid())
			complete++
		}
		m.login("root", fmt.Sprintf("while pos_cli --pre-dump --dir %s --pid %d >>%s/said; do :; done", where, j.pid(), j.dir))
		time.Sleep(2*time.Second + moment)
		m.cutPower()
		m.start()
		complete += strings.Count(m.run("cat "+j.dir+"/said 2>/dev/null || true"), "generation")
		if complete == 0 && m.run("[ -e "+where+" ] || echo none") != "" {
			continue
		}
		said, err := m.try("root", "pos_cli image verify "+where+" && pos_cli image list "+where)
		t.Log(moment, complete, said, err)
		if err != nil && complete > 0 {
			t.Fatal("an image that was complete is not there")
		}
		if err != nil {
			continue
		}
		t.Log(j.cli("--restore --detach --dir", where))
		j.goesOn()
		j.ends()
		j.cli("--restore --detach --generation 1 --dir", where)
		j.ends()
	}
}
