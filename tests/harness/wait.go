package harness

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Patience is how long a test waits for something that must happen. It must only be longer than the
// slowest machine needs; PHOS_TEST_SLOWNESS multiplies it on machines slower than those of CI.
var Patience = parsePatience(os.Getenv("PHOS_TEST_SLOWNESS"))

// parsePatience returns 120 s, times the slowness if that is a number above 1.
func parsePatience(slowness string) time.Duration {
	times, err := strconv.ParseFloat(slowness, 64)
	if err != nil {
		times = 1
	}
	return time.Duration(max(times, 1) * float64(120*time.Second))
}

// Eventually waits until holds returns true, and fails the test after a time limit.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !becomes(holds) {
		t.Fatalf("timed out: %s", what)
	}
}

// becomes waits until holds returns true, or for Patience.
func becomes(holds func() bool) bool {
	late := false
	for start := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		if late { // checked once more, in case the machine was suspended
			return false
		}
		late = time.Since(start) > Patience
	}
	return true
}

// AwaitReady waits until a daemon has written "ready" to the other end of a pipe, which was its
// --ready-fd. It returns what the daemon wrote instead.
func AwaitReady(pipe *os.File) (line string, err error) {
	if err := pipe.SetReadDeadline(time.Now().Add(2 * Patience)); err != nil {
		return "", err
	}
	line, err = bufio.NewReader(pipe).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "ready") {
		err = errors.New("it is not ready")
	}
	return line, err
}

// Tail returns the last 30 lines of a text.
func Tail(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
