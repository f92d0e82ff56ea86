package saved

// Stream is a stream that the program created.
type Stream struct {
	Flags    uint32
	Priority int32
}

// code codes a stream; its queue is empty in a checkpoint.
func (s *Stream) code(c *coder) {
	number(c, &s.Flags)
	number(c, &s.Priority)
}
