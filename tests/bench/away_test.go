package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// wanderer is a program that moves between two hosts by ssh, without a cluster.
type wanderer struct {
	*holder
	from, to *hosts.Host
	pid      int
}

// startWanderer starts two hosts, and a program on one of them.
func startWanderer(t *testing.T, b *bench) *wanderer {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	both := hosts.New(t, 2, hosts.Options{})
	for _, each := range both {
		each.Phosd(1, fmt.Sprintf("--gpus=soft:1,memory=%dMiB", 2*b.bytes/mebibyte), "--log-level=warn")
	}
	hosts.StartSSHD(t, both)
	page := newPage(t, filepath.Join(both[0].Shared(), "page"))
	w := &wanderer{holder: &holder{t: t, page: page, bytes: b.bytes}, from: both[0], to: both[1]}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	command := w.from.Program(context.Background(), b.compiledMemoryProgram(t), hosts.SharedDir+"/page", fmt.Sprint(b.bytes/mebibyte))
	command.Stdin, command.Stdout, command.Stderr = null, null, null
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	w.pid = command.PID()
	go func() { _ = command.Wait() }() // it leaves no zombie with its pid
	harness.Eventually(t, "its memory is written", func() bool { return w.get(steps) > 0 })
	return w
}

// ssh returns the command that runs another one on the other host.
func (w *wanderer) ssh(command string) string {
	return hosts.SSH(hosts.SSHKey) + " root@" + w.to.Name + " " + command
}

// moves moves the program to the other host, and returns what is said of that.
func (w *wanderer) moves() (m moved) {
	w.t.Helper()
	said := w.from.RunCLI("--migrate", "--pid", fmt.Sprint(w.pid), "--to", "root@"+w.to.Name, "--json",
		"--ssh", hosts.SSH(hosts.SSHKey), "--remote-pos-cli", w.to.Binary("pos_cli"))
	if err := json.Unmarshal([]byte(said), &m); err != nil {
		w.t.Fatalf("%v: %s", err, said)
	}
	w.from, w.to = w.to, w.from
	return m
}

// copies saves the program, copies its image by ssh and restores it on the other host.
func (w *wanderer) copies() {
	w.t.Helper()
	cli := w.to.Binary("pos_cli")
	w.from.Run("sh", "-ec", cli+" --dump --dir - --pid "+fmt.Sprint(w.pid)+" | "+
		w.ssh(cli+" --restore --detach --trust-seal --dir -"))
	w.from, w.to = w.to, w.from
}

// streamed returns how many bytes a second go through ssh if nothing else is done with them.
func (w *wanderer) streamed(bytes uint64) float64 {
	w.t.Helper()
	begun := time.Now()
	w.from.Run("sh", "-ec", fmt.Sprintf("head -c %d /dev/zero | ", bytes)+w.ssh("sh -c 'cat >/dev/null'"))
	return float64(bytes) / time.Since(begun).Seconds()
}

// measureAway moves a program that rewrites 1 % of its memory a second between two hosts by ssh. It
// compares how long that makes no step with that when it is dumped, copied and restored, and with
// that during a pre-dump.
func measureAway(t *testing.T, b *bench) []row {
	w := startWanderer(t, b)
	w.set(rewriteBytesPerSecond, b.bytes/100)
	var still, told, whole, pauses, sent, speed []float64
	for range b.rounds {
		w.waitStep()
		pauses = append(pauses, w.longestGap(func() {
			w.from.RunCLI("--pre-dump", "--pid", fmt.Sprint(w.pid), "--dir", "/dev/shm/pause")
		}))
		w.from.Run("rm", "-r", "/dev/shm/pause")
		whole = append(whole, w.longestGap(w.copies))

		w.waitStep()
		var said moved
		still = append(still, w.longestGap(func() { said = w.moves() }))
		told = append(told, seconds(said.StoodStill))
		took := seconds(said.Total)
		sent = append(sent, float64(said.Sent)/(float64(b.bytes)*(1+took/100)))
		speed = append(speed, float64(said.Sent)/seconds(said.Sending)/w.streamed(b.bytes))
	}
	w.set(quit, 1)
	harness.Eventually(t, "the program ends", func() bool { return w.get(verified) == 1 })
	return []row{
		{
			name: "moved by ssh: stands still / dump, copy and restore", value: median(still) / median(whole), most: 1.0 / 20,
			note: fmt.Sprintf("%s of %.2f s; --migrate says %s", milliseconds(median(still)), median(whole), milliseconds(median(told))),
		},
		{
			name: "moved by ssh: stands still / pre-dump's pause", value: median(still) / median(pauses), most: 3,
			note: "of " + milliseconds(median(pauses)),
		},
		{name: "moved by ssh: bytes sent / its memory and what it wrote", value: median(sent), most: 1.15},
		{name: "moved by ssh: throughput / a stream by ssh", value: median(speed), least: 0.8},
	}
}
