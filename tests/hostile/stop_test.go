package hostile

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// leaveSticky hands off files of which the last close blocks, one for each letter of COUNT, and
// makes phosd close them: each handoff ends with a message that is wrong.
func leaveSticky(arguments []string) error {
	for range len(arguments[0]) {
		file, err := sticky()
		if err != nil {
			return err
		}
		conn, err := net.Dial("unix", api.Socket())
		if err != nil {
			return err
		}
		head := binary.LittleEndian.AppendUint32(nil, fdtoken.Magic)
		if _, err := conn.Write(binary.LittleEndian.AppendUint32(head, 2)); err != nil {
			return err
		}
		group := binary.LittleEndian.AppendUint32(nil, 1)
		stream := conn.(*net.UnixConn)
		if _, _, err := stream.WriteMsgUnix(group, unix.UnixRights(int(file.Fd())), nil); err != nil {
			return err
		}
		if err := file.Close(); err != nil { // phosd has the last one now
			return err
		}
		if _, err := stream.Write(group); err != nil {
			return err
		}
	}
	fmt.Println("done")
	select {}
}

// TestStopWithBlockingFiles: phosd closes files of bob's, and the close of each blocks. phosd ends
// all the same when root stops it.
func TestStopWithBlockingFiles(t *testing.T) {
	b, d := bob(t), start(t)
	attack := b.intruder(d, "leave-sticky", "....")
	said := &lines{}
	attack.Stdout = said
	background(t, attack)
	waitFor(t, "the files are handed off", func() bool { return strings.Contains(strings.Join(said.all(), ""), "done") })
	waitFor(t, "phosd closes them", func() bool { return closing(d.PID()) >= 4 })
	if err := unix.Kill(d.PID(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.Await()
	d.Launch()
}

// closing returns how many threads of a process wait for the end of a TCP connection.
func closing(pid int) (count int) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/syscall", pid, task.Name()))
		if strings.HasPrefix(string(text), fmt.Sprint(unix.SYS_CLOSE, " ")) {
			count++
		}
	}
	return count
}
