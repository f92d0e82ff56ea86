package image

import (
	"bytes"
	"encoding/binary"
)

// A stream is a header, frames in any order, and an end. The frames are one manifest, and records
// without padding, each with its stored bytes.
const (
	streamMagic = "phosstrm"

	// ManifestMagic and EndMagic begin the frames that are not records.
	ManifestMagic = "mnfs"
	EndMagic      = "end\n"

	// StreamHeaderBytes is the length of a stream's header.
	StreamHeaderBytes = 32
	// FrameBytes is the length of the header of the manifest's frame, and of the end.
	FrameBytes = 16
)

// StreamHeader returns the header of a stream.
func StreamHeader() []byte {
	out := append(make([]byte, 0, StreamHeaderBytes), streamMagic...)
	out = binary.LittleEndian.AppendUint32(out, Version)
	out = binary.LittleEndian.AppendUint32(out, 0)
	return append(out, check(16, out)...)
}

// CheckStreamHeader checks StreamHeaderBytes bytes.
func CheckStreamHeader(raw []byte) error {
	if len(raw) != StreamHeaderBytes || string(raw[:8]) != streamMagic {
		return malformed("not an image stream")
	}
	if err := checkVersion("stream", binary.LittleEndian.Uint32(raw[8:])); err != nil {
		return err
	}
	if !bytes.Equal(raw, StreamHeader()) {
		return malformed("the beginning of the stream is damaged")
	}
	return nil
}

// Frame is the header of the sealed manifest, whose length is N, or the end of a stream with N
// records.
type Frame struct {
	Magic string
	N     uint64
}

// Encode returns the frame's bytes.
func (f Frame) Encode() []byte {
	out := append(make([]byte, 0, FrameBytes), f.Magic...)
	out = binary.LittleEndian.AppendUint64(out, f.N)
	return append(out, check(4, out)...)
}

// DecodeFrame decodes FrameBytes bytes.
func DecodeFrame(raw []byte) (Frame, error) {
	if len(raw) != FrameBytes {
		return Frame{}, malformed("a frame of %d bytes", len(raw))
	}
	f := Frame{Magic: string(raw[:4]), N: binary.LittleEndian.Uint64(raw[4:])}
	switch {
	case !bytes.Equal(raw, f.Encode()), f.Magic != ManifestMagic && f.Magic != EndMagic:
		return Frame{}, malformed("a frame of the stream is damaged")
	case f.Magic == ManifestMagic && f.N > MaxSignedBytes:
		return Frame{}, malformed("a manifest of %d bytes", f.N)
	}
	return f, nil
}
