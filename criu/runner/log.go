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
	// warnings is the log level at which CRIU prints errors and warnings.
	warnings = 2
	// shownErrors is how many of the last errors are shown. The first cause is usually among them.
	shownErrors = 6
	// maxTailBytes is how much of the end of a log is read.
	maxTailBytes = 64 << 10
)

// log is CRIU's output. It is kept in memory, because the directory of images holds only images.
type log struct{ file *os.File }

func newLog() (*log, error) {
	fd, err := unix.MemfdCreate("criu.log", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("log of CRIU: %w", err)
	}
	return &log{os.NewFile(uintptr(fd), "criu.log")}, nil
}

func (l *log) Close() { _ = l.file.Close() }

// tail returns the end of the log.
func (l *log) tail() string {
	info, err := l.file.Stat()
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.NewSectionReader(l.file, max(0, info.Size()-maxTailBytes), maxTailBytes))
	return string(text)
}

// suffix returns CRIU's last errors as the end of an error message.
func (l *log) suffix() string {
	if lines := errorLines(l.tail()); len(lines) > 0 {
		return ": " + strings.Join(lines, "; ")
	}
	return ""
}

// errorLine matches an error: "(00.012345) Error (criu/files.c:123): text". In a restored process
// its pid precedes it.
var errorLine = regexp.MustCompile(`^(?:\(\d+\.\d+\)\s*)?(?:\s*\d+:\s*)?(?:pie: *\d+: *)?Error (?:\([^)]*\): )?(.*)$`)

// errorLines returns the last errors of a log, each once, without times and source positions.
// Failures to raise CRIU's own limits do not count.
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
