package saved

// Stream is a stream that the program created.
type Stream struct {
	Flags    uint32
	Priority int32
}

func (s *Stream) code(c *coder) {
	number(c, &s.Flags)
	number(c, &s.Priority)
}
