package decisions

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrNone means that there is no log here.
var ErrNone = errors.New("there is no log of decisions")

// Read calls a function with each line of the newest log, up to what is written now.
func Read(dir string, each func(line string) error) error {
	found := list(dir)
	if len(found) == 0 {
		return ErrNone
	}
	file, err := os.Open(found[len(found)-1])
	if err != nil {
		return fmt.Errorf("log of decisions: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("log of decisions: %w", err)
	}
	lines := bufio.NewReader(io.LimitReader(file, info.Size()))
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil // what is left is half a line
		}
		if err != nil {
			return fmt.Errorf("log of decisions: %w", err)
		}
		if err := each(line[:len(line)-1]); err != nil {
			return err
		}
	}
}
