package answer

import (
	"errors"
	"io"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/linelog"
)

// Picker picks the lines of a log that a question is about.
type Picker struct {
	Question *api.LogQuestion
	// Send gets the lines.
	Send     func(*api.LogLine) error
	tail     []*api.LogLine
	followed bool
	// lastUnixNs is the time of the last entry that has one; early are losses before the first.
	lastUnixNs int64
	early      []*api.LogLine
}

// TakeAll takes what a log has now.
func (p *Picker) TakeAll(reader *linelog.Reader) error {
	for {
		entry, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return p.finishTail()
		}
		if err == nil {
			err = p.Take(entry)
		}
		if err != nil {
			return err
		}
	}
}

// Take takes an entry of the log.
func (p *Picker) Take(e linelog.Entry) error {
	if !e.Time.IsZero() {
		if p.lastUnixNs = e.Time.UnixNano(); len(p.early) > 0 {
			if err := p.addEarly(); err != nil {
				return err
			}
		}
	}
	if e.Lost != nil {
		return p.takeLost(e)
	}
	if q := p.Question; q.GetProcess() >= 0 && int32(e.Process) != q.GetProcess() {
		return nil
	}
	return p.add(&api.LogLine{
		UnixNs: p.lastUnixNs, Process: uint32(e.Process), Stderr: e.Stream == linelog.Err,
		Text: append([]byte(nil), e.Text...), Partial: e.Partial,
	})
}

// takeLost takes an entry that says that lines are missing, whichever process they were of. If it
// has no time, it gets that of the entry before it; if there is none, of the one behind it.
func (p *Picker) takeLost(e linelog.Entry) error {
	line := &api.LogLine{UnixNs: p.lastUnixNs, Dropped: uint64(max(1, e.Lost.Lines)), Text: []byte(e.Lost.Reason)}
	if p.lastUnixNs == 0 {
		p.early = append(p.early, line)
		return nil
	}
	return p.add(line)
}

// addEarly adds what was lost before the first entry with a time.
func (p *Picker) addEarly() error {
	early := p.early
	p.early = nil
	for _, line := range early {
		line.UnixNs = p.lastUnixNs
		if err := p.add(line); err != nil {
			return err
		}
	}
	return nil
}

// add sends a line that is late enough, or keeps it if only the last ones are asked for.
func (p *Picker) add(line *api.LogLine) error {
	if line.GetUnixNs() < p.Question.GetSinceUnixNs() {
		return nil
	}
	most := int(p.Question.GetTail())
	if most == 0 || p.followed {
		return p.Send(line)
	}
	p.tail = append(p.tail, line)
	if len(p.tail) >= 2*most {
		p.tail = append(p.tail[:0], p.tail[len(p.tail)-most:]...)
	}
	return nil
}

// finishTail sends the last lines.
func (p *Picker) finishTail() error {
	if err := p.addEarly(); err != nil {
		return err
	}
	p.followed = true
	most := int(p.Question.GetTail())
	for _, line := range p.tail[max(0, len(p.tail)-most):] {
		if err := p.Send(line); err != nil {
			return err
		}
	}
	p.tail = nil
	return nil
}
