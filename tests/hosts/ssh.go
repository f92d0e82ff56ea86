package hosts

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// SSHKey is the key of all users of all hosts on which StartSSHD was called; its public half has
// the same name with ".pub".
const SSHKey = "/tmp/key"

// StateHome is where commands by ssh keep a user's state: homes are the same on all hosts.
const StateHome = "/run/state"

// SSH returns the command that reaches other hosts with a key, and asks nothing.
func SSH(key string) string {
	return "ssh -i " + key + " -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
}

// StartSSHD starts an sshd on each host.
func StartSSHD(t testing.TB, all []*Host) {
	t.Helper()
	_, err := exec.LookPath("/usr/sbin/sshd")
	harness.Need(t, "hosts", err)
	made := filepath.Join(t.TempDir(), "key") // which all hosts see
	all[0].Run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", made)
	for _, each := range all {
		each.Run("sh", "-ec", `mkdir -p /run/sshd && mkdir -m 1777 "$3" && cp "$1" "$2" && cp "$1.pub" "$2.pub"`, "sh", made, SSHKey, StateHome)
		each.Start("sshd", "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-h", SSHKey,
			"-o", "AuthorizedKeysFile="+SSHKey+".pub", "-o", "StrictModes=no", "-o", "PermitRootLogin=yes",
			"-o", "SetEnv=XDG_STATE_HOME="+StateHome)
		harness.Eventually(t, "the sshd answers", func() bool {
			return each.Command(context.Background(), "bash", "-c", ": </dev/tcp/127.0.0.1/22").Run() == nil
		})
	}
}
