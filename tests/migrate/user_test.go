package migrate

import (
	"context"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/hosts"
)

// mover is a user that exists on both hosts.
const (
	mover    = "mover"
	moverUID = 4711
	moverKey = "/tmp/key-mover"
)

// TestUser: a user moves a program of its own once root there has imported the first host's key,
// and not before.
func TestUser(t *testing.T) {
	p := newPair(t)
	for _, each := range []*hosts.Host{p.from, p.to} {
		each.Run("sh", "-ec", `useradd -M -d /tmp -s /bin/sh -u 4711 mover && usermod -p '*' mover
			cp "$1" "$2" && chown mover "$2" "$3" "$4"`, "sh", hosts.SSHKey, moverKey, work, alone)
	}
	p.user = mover
	want := p.undisturbed("400", "20000", "10000")
	program := p.start(work, "400", "20000", "10000")
	p.awaitSteps(p.from, 5)
	pid := program.PID()
	said, err := p.migrate(context.Background(), pid).As(moverUID, moverUID).CombinedOutput()
	if err == nil || !strings.Contains(string(said), "image key") {
		t.Errorf("without the key: %v: %s", err, said)
	}
	exported := p.from.RunCLI("image", "key", "export")
	p.to.Run("sh", "-ec", `printf '%s' "$1" | "$2" image key import first`, "sh", exported, p.to.Binary("pos_cli"))
	said, err = p.migrate(context.Background(), pid).As(moverUID, moverUID).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	p.awaitSteps(p.to, 5)
	if got := strings.TrimSpace(p.to.Run("ps", "-o", "uid=", "-C", "program")); got != "4711" {
		t.Errorf("it runs there as %q", got)
	}
	p.finish(p.to, want)
	p.nothingLeft()
}
