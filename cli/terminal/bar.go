package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cli/humanize"
)

const (
	// barEvery is the time between updates of a bar, lineEvery between lines of the same phase.
	barEvery  = 100 * time.Millisecond
	lineEvery = 2 * time.Second
	barCells  = 24
	// lateBy is how long work takes before a late bar appears.
	lateBy = time.Second
)

// Bar shows progress: as a bar on a terminal, as a line every few seconds elsewhere. Several
// goroutines may use it.
type Bar struct {
	out      io.Writer
	animated bool
	unit     string // empty: bytes
	now      func() time.Time
	from     time.Time // nothing is shown before

	mu         sync.Mutex // guards all below
	phase      string
	newest     string           // the phase that began last
	phases     map[string]start // how each phase began
	began      time.Time        // when the phase began
	startBytes uint64           // done bytes when the phase began
	done       uint64           // of the last step
	shown      time.Time
	visible    bool
	// line is the last one that was printed, and unprinted a later one of the same phase, if any.
	line, unprinted string
}

// start is the beginning of a phase.
type start struct {
	at   time.Time
	done uint64
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

// NewLateCounter returns a counter that appears only for work that takes some time.
func NewLateCounter(to io.Writer, unit string) *Bar {
	b := NewCounter(to, unit)
	b.from = b.now().Add(lateBy)
	return b
}

// Step shows the progress of a phase. A total of 0 is unknown. Phases may overlap. Of lines, those
// of a phase end when the next phase begins; a bar shows whichever phase made progress.
func (b *Bar) Step(phase string, done, total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if now.Before(b.from) {
		return
	}
	first, again := b.phases[phase]
	if !again {
		b.printLast()
		first = start{now, done}
		if b.phases == nil {
			b.phases = make(map[string]start)
		}
		b.phases[phase], b.newest = first, phase
	}
	if phase != b.newest && !b.animated {
		return
	}
	began, moved := phase != b.phase, done != b.done
	b.phase, b.began, b.startBytes, b.done = phase, first.at, first.done, done
	switch {
	case b.animated:
		b.move(now, began, done, total)
		return
	case !began && !moved:
		return // the rate would go down, though the phase may be over
	}
	if b.unprinted = b.text(now, done, total); began || now.Sub(b.shown) >= lineEvery {
		b.shown = now
		b.printLast()
	}
}

// move draws the bar, unless it has just done so. The caller holds b.mu.
func (b *Bar) move(now time.Time, began bool, done, total uint64) {
	if !began && now.Sub(b.shown) < barEvery && (done < total || total == 0) {
		return
	}
	b.shown, b.visible = now, true
	fmt.Fprintf(b.out, "\r\x1b[K%s", b.text(now, done, total))
}

// printLast prints the last line of the phase, unless it was printed. The caller holds b.mu.
func (b *Bar) printLast() {
	if b.unprinted != "" && b.unprinted != b.line {
		b.line = b.unprinted
		fmt.Fprintln(b.out, b.line)
	}
	b.unprinted = ""
}

// Say prints a line.
func (b *Bar) Say(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erase()
	fmt.Fprintln(b.out, text)
}

// Clear erases the bar. Of lines, the last one of the phase is printed, if it was not yet.
func (b *Bar) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erase()
	b.printLast()
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
	text.WriteString(" " + b.amount(done))
	if total > 0 {
		text.WriteString(" of " + b.amount(total))
	}
	if b.unit != "" {
		text.WriteString(" " + b.unit)
	}
	elapsed := now.Sub(b.began).Seconds()
	if elapsed <= 0 || done <= b.startBytes {
		return text.String()
	}
	rate := float64(done-b.startBytes) / elapsed
	text.WriteString(", " + b.amount(uint64(rate)))
	if b.unit != "" {
		text.WriteString(" " + b.unit)
	}
	text.WriteString("/s")
	if total > done {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		fmt.Fprintf(&text, ", %s left", left.Round(time.Second))
	}
	return text.String()
}

// amount returns bytes in readable form, or a number of units.
func (b *Bar) amount(n uint64) string {
	if b.unit == "" {
		return humanize.Bytes(n)
	}
	return strconv.FormatUint(n, 10)
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(file *os.File) bool {
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
