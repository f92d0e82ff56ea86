package machine

import (
	"testing"
)

// user is an ordinary account that can log in.
const user = "ordinary"

// TestSession: a user may log out after starting a detached restore.
func TestSession(t *testing.T) {
	m := boot(t)
	m.jobs()
	j := m.job("job", user)
	leave := j.login()
	where := j.dir + "/image"
	j.cli("--dump --dir", where, "--pid", j.pid())
	leave()
	said, err := m.try(user, "pos_cli --restore --detach --dir "+where, apart)
	t.Log(said)
	if err != nil {
		t.Fatal(err)
	}
	m.run(
		"loginctl list-sessions; loginctl --no-legend list-sessions | grep " + user +
			" | while read s _; do loginctl show-session $s; done",
	)
	j.waitProgress()
	j.finishAndCompare()
}

// TestShutdown: a program of a login session is saved when the machine shuts down, and restored
// after the next boot.
func TestShutdown(t *testing.T) {
	m := boot(t)
	m.jobs()
	m.highPIDs()
	j := m.job("job", user)
	m.runAs(user, "echo 'checkpoint: {dir: image, on: [exit-signal]}' >"+j.dir+"/pos.yaml")
	j.login()
	m.restart()
	t.Log(m.run("journalctl --no-pager -b -1 -u phosd -n 20 || true; wc -l <" + j.dir + "/steps"))
	t.Log(j.cli("image verify", j.dir+"/image"))
	t.Log(j.cli("--restore --detach --dir", j.dir+"/image"))
	j.waitProgress()
	j.finishAndCompare()
}

// highPIDs raises the machine's next pid above those that are in use after its next boot.
func (m *machine) highPIDs() {
	m.t.Helper()
	m.run("echo 30000 >/proc/sys/kernel/ns_last_pid")
}
