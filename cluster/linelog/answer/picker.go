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
	q := p.Question
	switch {
	case e.Lost != nil:
		return p.add(&api.LogLine{UnixNs: e.Time.UnixNano(), Dropped: uint64(e.Lost.Lines), Text: []byte(e.Lost.Reason)})
	case q.GetProcess() >= 0 && int32(e.Process) != q.GetProcess(), e.Time.UnixNano() < q.GetSinceUnixNs():
		return nil
	}
	return p.add(&api.LogLine{
		UnixNs: e.Time.UnixNano(), Process: uint32(e.Process), Stderr: e.Stream == linelog.Err,
		Text: append([]byte(nil), e.Text...), Partial: e.Partial,
	})
}

// add sends a line, or keeps it if only the last ones are asked for.
func (p *Picker) add(line *api.LogLine) error {
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
