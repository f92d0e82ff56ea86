package pipe

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// Dir is the directory name that means standard input or output.
const Dir = "-"

// ErrTerminal is returned if an image would be written to a terminal.
var ErrTerminal = errors.New("standard output is a terminal: redirect it to a file or a pipe")

// Out returns standard output, for writing an image.
func Out() (*os.File, error) {
	if _, err := unix.IoctlGetTermios(int(os.Stdout.Fd()), unix.TCGETS); err == nil {
		return nil, ErrTerminal
	}
	return os.Stdout, nil
}

// In reads the manifest of an image, and returns it with a pipe that has the whole image.
func In(from io.Reader) (*image.Manifest, *os.File, error) {
	head := make([]byte, image.StreamHeaderBytes+image.FrameBytes)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, nil, explainEOF(err)
	}
	if err := image.CheckStreamHeader(head[:image.StreamHeaderBytes]); err != nil {
		return nil, nil, err
	}
	frame, err := image.DecodeFrame(head[image.StreamHeaderBytes:])
	if err != nil {
		return nil, nil, err
	}
	signed := make([]byte, frame.N)
	if _, err := io.ReadFull(from, signed); err != nil {
		return nil, nil, explainEOF(err)
	}
	manifest, _, err := image.Inspect(signed)
	if err != nil {
		return nil, nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	go func() {
		// The pipe's reader detects a truncated image.
		defer write.Close()
		if _, err := write.Write(append(head, signed...)); err == nil {
			_, _ = io.Copy(write, from)
		}
	}()
	return manifest, read, nil
}

// explainEOF replaces the error of an input that ends too early.
func explainEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("standard input ends before the image's manifest")
	}
	return err
}
