package runner

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// warnings is the level of CRIU's log at which it names errors and warnings.
	warnings = 2
	// shownErrors are the last ones: the first cause stands among them, before what follows from it.
	shownErrors = 6
	// longestTail is how much of the end of a log is looked at.
	longestTail = 64 << 10
)

// log is what CRIU says. It is kept in memory: the directory of images is for images.
type log struct{ file *os.File }

func newLog() (*log, error) {
	fd, err := unix.MemfdCreate("criu.log", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("log of CRIU: %w", err)
	}
	return &log{os.NewFile(uintptr(fd), "criu.log")}, nil
}

func (l *log) Close() { _ = l.file.Close() }

func (l *log) tail() string {
	info, err := l.file.Stat()
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.NewSectionReader(l.file, max(0, info.Size()-longestTail), longestTail))
	return string(text)
}

// suffix is what CRIU's last errors add to an error.
func (l *log) suffix() string {
	if lines := errorLines(l.tail()); len(lines) > 0 {
		return ": " + strings.Join(lines, "; ")
	}
	return ""
}

// errorLine is one that tells of an error: "(00.012345) Error (criu/files.c:123): text", in a
// restored process with its pid before it.
var errorLine = regexp.MustCompile(`^(?:\(\d+\.\d+\)\s*)?(?:\s*\d+:\s*)?(?:pie: *\d+: *)?Error (?:\([^)]*\): )?(.*)$`)

// errorLines are the last errors of a log, without times and places in CRIU's source, each once.
// That a limit of its own could not be raised is none.
func errorLines(text string) []string {
	var found []string
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		match := errorLine.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil || match[1] == "" || seen[match[1]] || strings.HasPrefix(match[1], "rlimit: ") {
			continue
		}
		seen[match[1]] = true
		found = append(found, strings.TrimSpace(match[1]))
	}
	return found[max(0, len(found)-shownErrors):]
}
