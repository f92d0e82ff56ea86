package linelog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Seal ends a log whose Writer was killed, so that it has a last record. A torn record is removed:
// no Reader has seen it. There must be no Writer.
func Seal(dir string) error {
	all, err := segments(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(all) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	file, err := os.OpenFile(all[len(all)-1].path(dir), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("end log: %w", err)
	}
	defer file.Close()
	torn, err := tornBytes(file, all[len(all)-1].bytes)
	if err == nil && torn > 0 {
		err = file.Truncate(all[len(all)-1].bytes - torn)
	}
	if err == nil {
		_, err = file.Write(appendEnd(nil, time.Now()))
	}
	if err != nil {
		return fmt.Errorf("end log: %w", err)
	}
	return nil
}

// tornBytes returns how many bytes a file has after its last whole line. Only as many as a record
// can have are looked at.
func tornBytes(file *os.File, size int64) (int64, error) {
	tail := make([]byte, min(size, maxRecord))
	if _, err := file.ReadAt(tail, size-int64(len(tail))); err != nil {
		return 0, err
	}
	return int64(len(tail) - 1 - bytes.LastIndexByte(tail, '\n')), nil
}
