package restorer

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/phos-gpu/phos/internal/words"
)

// Bounds of what a tree without a reader may write to phosd's log. The log belongs to the
// administrator, and a program may print any amount.
const (
	// maxLine is the longest line; longer ones are split.
	maxLine = 1 << 10
	// burstBytes of the log may come at once, then rateBytes in a second, and maxOutput in all.
	burstBytes = 64 << 10
	rateBytes  = 4 << 10
	maxOutput  = 16 << 20
)

// outputMessage is the message of each line.
const outputMessage = "output of a restored program"

// timeVaries is how much shorter the time of one line can be than that of another one: JSON has no
// trailing zeros of ".123456789".
const timeVaries = 10

// output writes what a tree prints to ends without a reader into phosd's log: as lines of the log,
// which name the tree, with control characters escaped. So a program cannot forge lines.
type output struct {
	to  io.Writer // nil: everything is discarded
	now func() time.Time

	mu  sync.Mutex   // guards all below
	log *slog.Logger // writes to line
	// line is the line as it will be in the log: with a time, a name and escapes it is much longer
	// than what the program has printed.
	line bytes.Buffer
	// least is a lower bound for what the time, the name and the rest add to a line.
	least int
	// allowed is how many bytes may come at once, as of last.
	allowed float64
	last    time.Time
	written int
	// dropped is how many bytes of the program were not written since the last line.
	dropped int
}

// newOutput returns the output of the tree of a root. The log may be nil.
func newOutput(to *os.File, asJSON bool, root int, uid uint32) *output {
	o := &output{now: time.Now, allowed: burstBytes, last: time.Now()}
	if to != nil {
		o.to = to
	}
	o.log = logOf(&o.line, asJSON, root, uid)
	o.log.Info(outputMessage, "text", "")
	o.least = o.line.Len() - timeVaries
	return o
}

// logOf returns a logger for the output of a tree.
func logOf(to io.Writer, asJSON bool, root int, uid uint32) *slog.Logger {
	var handler slog.Handler = slog.NewTextHandler(to, nil)
	if asJSON {
		handler = slog.NewJSONHandler(to, &slog.HandlerOptions{ReplaceAttr: words.EscapeControls})
	}
	return slog.New(handler).With("pid", root, "uid", uid)
}

// copyAll reads until the end. It reads on when nothing more is written: the program must not
// block.
func (o *output) copyAll(from io.Reader) {
	var line []byte
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		for part := range bytes.Lines(buffer[:n]) {
			line = append(line, part...)
			for len(line) > maxLine || bytes.HasSuffix(line, []byte("\n")) {
				length := min(len(line), maxLine)
				o.write(line[:length])
				line = append(line[:0], line[length:]...)
			}
		}
		if err != nil {
			if len(line) > 0 {
				o.write(line)
			}
			return
		}
	}
}

// write writes a line, or drops it.
func (o *output) write(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	o.allowed = min(burstBytes, o.allowed+now.Sub(o.last).Seconds()*rateBytes)
	o.last = now
	text := bytes.TrimRight(line, "\r\n")
	// Escapes make it longer, not shorter. A line that is dropped anyway is not formatted: a program
	// that prints without end must not cost the restorer as much.
	if atLeast := o.least + len(text); o.to == nil || o.allowed < float64(atLeast) || o.written+atLeast > maxOutput {
		o.dropped += len(line)
		return
	}
	log := o.log
	if o.dropped > 0 {
		log = log.With("dropped_bytes", o.dropped)
	}
	o.line.Reset()
	log.Info(outputMessage, "text", string(text))
	if o.allowed < float64(o.line.Len()) || o.written+o.line.Len() > maxOutput {
		o.dropped += len(line)
		return
	}
	o.allowed -= float64(o.line.Len())
	o.written += o.line.Len()
	o.dropped = 0
	_, _ = o.to.Write(o.line.Bytes()) // the log may be full; the program must not notice
}
