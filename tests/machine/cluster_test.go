package machine

import (
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// beats is where the launch of TestClusterUnits writes a line five times a second.
const beats = "/srv/beats"

// beat waits until the launch writes again.
func (m *machine) beat(what string) {
	m.t.Helper()
	before := strings.TrimSpace(m.run("wc -l <" + beats))
	m.eventually(what, "[ $(wc -l <"+beats+") -gt "+before+" ]")
}

// TestClusterUnits: a controller and an agent are units. A launch does not notice that they, and
// phosd, are restarted and killed. After a reboot they run again, and so does the launch.
func TestClusterUnits(t *testing.T) {
	m := boot(t)
	m.run("install -m 666 /dev/null " + beats)
	m.run("systemctl enable --now phos-controller")
	m.eventually("a controller leads", "phos node token")
	m.run("phos-agent join " + harness.JoinToken(m.run("phos node token")))
	m.run("systemctl enable --now phos-agent")
	ready := "phos node list | grep -qw ready"
	m.eventually("the node is ready", ready)
	m.runAs(user, "phos launch --no-code --name beats -- sh -c 'while :; do echo $PHOS_ATTEMPT >>"+beats+"; sleep 0.2; done'")
	m.beat("the launch runs")
	for _, how := range []string{
		"systemctl restart phos-agent",
		"systemctl kill --signal=KILL --kill-whom=main phos-agent",
		"systemctl restart phos-controller",
		"systemctl kill --signal=KILL --kill-whom=main phos-controller",
		"systemctl restart phosd",
		"systemctl stop phos-agent phos-controller; systemctl start phos-controller phos-agent",
		"systemctl daemon-reexec",
	} {
		t.Log(how, m.run(how))
		m.beat("the launch runs after " + how)
		m.eventually("the node is ready after "+how, "systemctl is-active phos-agent phos-controller && "+ready)
	}
	m.run("[ \"$(sort -u " + beats + ")\" = 1 ]")
	m.restart()
	m.eventually("the node is ready after a reboot", ready)
	m.eventually("the launch runs again", "tail -n 1 "+beats+" | grep -qx 2")
	m.runAs(user, "phos stop beats")
	m.eventually("nothing is left of it", "! pgrep -f '[/]srv/beats'") // which this script does not match
	m.run("systemctl stop phos-agent phos-controller")
	t.Log(m.run("journalctl --no-pager -u phos-agent -u phos-controller -n 30"))
}
