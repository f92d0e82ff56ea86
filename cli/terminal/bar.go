package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// barEvery is the time between updates of a bar, lineEvery between lines of the same phase.
	barEvery  = 100 * time.Millisecond
	lineEvery = 2 * time.Second
	barCells  = 24
)

// Bar shows progress: as a bar on a terminal, as a line every few seconds elsewhere. Several
// goroutines may use it.
type Bar struct {
	out      io.Writer
	animated bool
	unit     string // empty: bytes
	now      func() time.Time

	mu         sync.Mutex // guards all below
	phase      string
	began      time.Time // when the phase began
	startBytes uint64    // done bytes when the phase began
	shown      time.Time
	visible    bool
}

// NewBar returns a bar, which is animated if out is a terminal.
func NewBar(to io.Writer) *Bar {
	file, isFile := to.(*os.File)
	return &Bar{out: to, animated: isFile && IsTerminal(file), now: time.Now}
}

// NewCounter returns a bar that counts units, for example "jobs", instead of bytes.
func NewCounter(to io.Writer, unit string) *Bar {
	b := NewBar(to)
	b.unit = unit
	return b
}

// Step shows the progress of a phase. A total of 0 is unknown.
func (b *Bar) Step(phase string, done, total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, every := b.now(), lineEvery
	if b.animated {
		every = barEvery
	}
	began := phase != b.phase
	if began {
		b.phase, b.began, b.startBytes = phase, now, done
	}
	if !began && now.Sub(b.shown) < every && (done < total || total == 0) {
		return
	}
	b.shown = now
	if !b.animated {
		fmt.Fprintln(b.out, b.text(now, done, total))
		return
	}
	b.visible = true
	fmt.Fprintf(b.out, "\r\x1b[K%s", b.text(now, done, total))
}

// Say prints a line.
func (b *Bar) Say(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erase()
	fmt.Fprintln(b.out, text)
}

// Clear erases the bar.
func (b *Bar) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erase()
}

// erase erases the bar's line, if it is shown. The caller holds b.mu.
func (b *Bar) erase() {
	if b.visible {
		fmt.Fprint(b.out, "\r\x1b[K")
		b.visible = false
	}
}

// text returns phase, share, amount, rate and remaining time. The caller holds b.mu.
func (b *Bar) text(now time.Time, done, total uint64) string {
	var text strings.Builder
	text.WriteString(b.phase)
	if done == 0 && total == 0 {
		return text.String()
	}
	if b.animated && total > 0 {
		filled := int(float64(min(done, total)) / float64(total) * barCells)
		fmt.Fprintf(&text, " [%s%s]", strings.Repeat("#", filled), strings.Repeat(".", barCells-filled))
	} else {
		text.WriteByte(':')
	}
	amount, unit := b.scale()
	fmt.Fprintf(&text, " "+amount, unit.of(done))
	if total > 0 {
		fmt.Fprintf(&text, " of "+amount, unit.of(total))
	}
	text.WriteString(" " + unit.name)
	elapsed := now.Sub(b.began).Seconds()
	if elapsed <= 0 || done <= b.startBytes {
		return text.String()
	}
	rate := float64(done-b.startBytes) / elapsed
	fmt.Fprintf(&text, ", "+amount+" %s/s", rate/unit.size, unit.name)
	if total > done {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		fmt.Fprintf(&text, ", %s left", left.Round(time.Second))
	}
	return text.String()
}

// measure is a unit with its size.
type measure struct {
	name string
	size float64
}

func (m measure) of(n uint64) float64 { return float64(n) / m.size }

// scale returns the unit of amounts and their format.
func (b *Bar) scale() (format string, unit measure) {
	if b.unit == "" {
		return "%.2f", measure{"GB", 1e9}
	}
	return "%.0f", measure{b.unit, 1}
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(file *os.File) bool {
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
