package machine

import (
	"fmt"
	"strings"
	"testing"
)

const image = "/srv/image"

// TestService: a program that runs as a unit and logs to the journal is saved and restored as a
// unit. phosd, also a unit, is stopped, killed and restarted in the meantime.
func TestService(t *testing.T) {
	m := boot(t)
	m.jobs()
	j := m.job("job", "root")
	j.asUnit("job")
	j.waitSteps(10)
	pid := fmt.Sprint(j.pid())
	if main := strings.TrimSpace(m.run("systemctl show --property=MainPID --value job")); main != pid {
		t.Fatalf("systemd has main pid %s, want %s", main, pid)
	}
	j.cli("--pre-dump --dir", image, "--pid", pid)
	t.Log(m.run("systemctl stop phosd"))
	j.waitProgress()
	for _, how := range []string{
		"systemctl start phosd",
		"systemctl restart phosd",
		"systemctl kill --signal=KILL --kill-whom=main phosd",
		"(pos_cli --pre-dump --dir " + image + " --pid " + pid + " || true) & sleep 1; systemctl restart phosd; wait",
		"(pos_cli --pre-dump --dir " + image + " --pid " + pid +
			" || true) & sleep 1; systemctl kill --signal=KILL --kill-whom=main phosd; wait",
		"systemctl daemon-reexec",
		"systemctl restart systemd-journald",
	} {
		t.Log(how, m.run(how))
		m.eventually("phosd has the program", "systemctl is-active phosd && pos_cli --status | grep -w "+pid)
		j.waitProgress()
		m.run("pos_cli image verify " + image)
		m.checkNoCgroups()
	}
	t.Log(j.cli("--dump --dir", image, "--pid", pid))
	t.Log(m.run("systemctl is-active job || systemctl show --property=Result,ExecMainStatus job"))
	m.run("systemd-run --unit=back --property=After=phosd.service pos_cli --restore --dir " + image)
	j.waitProgress()
	m.run("systemctl restart phosd")
	j.waitProgress()
	j.finishAndCompare()
	m.eventually(
		"the unit has the program's status",
		"[ $(systemctl show --property=ExecMainStatus --value back) = 7 ]",
	)
	m.run(
		"journalctl --sync; journalctl --output=cat _SYSTEMD_UNIT=job.service + _SYSTEMD_UNIT=back.service | grep -E " +
			"'^(step|ok)' | cmp - /srv/want/out",
	)
	// When it is stopped, the unit ends like any other, and leaves nothing behind.
	m.run("systemd-run --unit=stopped pos_cli --restore --generation 1 --dir " + image)
	m.eventually("it runs once more", "pgrep -x count")
	m.run("systemctl stop stopped; [ \"$(systemctl show --property=Result --value stopped)\" != timeout ]")
	m.waitNoProgram()
	m.checkNoCgroups()
}

// TestStopDuringCheckpoint: systemd stops a program during its checkpoint.
func TestStopDuringCheckpoint(t *testing.T) {
	m := boot(t)
	m.jobs()
	for i, delay := range checkpointDelays {
		j := m.job(fmt.Sprint("job", i), "root")
		j.asUnit("job")
		j.waitSteps(10)
		where := fmt.Sprint(image, i)
		j.cli("--pre-dump --dir", where, "--pid", j.pid())
		t.Log(
			m.run(
				fmt.Sprintf(
					"(pos_cli --pre-dump --dir %s --pid %d 2>&1 || true) & sleep %f; systemctl stop job; wait",
					where,
					j.pid(),
					delay.Seconds(),
				),
			),
		)
		m.eventually("the unit has ended", "! systemctl is-active --quiet job")
		m.waitNoProgram()
		m.eventually("phosd has no program", "pos_cli --status | grep -q 'no programs'")
		m.checkNoCgroups()
		t.Log(m.run("pos_cli image verify " + where + "; pos_cli image list " + where))
		m.run("systemd-run --unit=back --collect pos_cli --restore --dir " + where)
		m.eventually("it runs again", "journalctl -u back | grep -c 'runs again' | grep -qx "+fmt.Sprint(i+1))
		j.finishAndCompare()
		m.eventually(
			"systemd has unloaded the unit, whose name is reused",
			"[ $(systemctl show --property=LoadState --value back) = not-found ]",
		)
	}
}
