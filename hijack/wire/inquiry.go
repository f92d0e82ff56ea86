package wire

// libphos sends an inquiry for NVML, for programs that query GPUs and do not compute: over the same
// socket as the handshake, without a session. phosd answers at once, from its current state, and
// the program closes the connection.
//
//	program  Inquiry  magic "PHOI", version, pad
//	phosd    Answer   head, then an entry for each GPU, then one for each holding: a GPU and a
//	                  program that holds memory on it
//
// A GPU's entry is its entry in the session file's device table, so that NVML and cuDevice* agree,
// followed by the GPU's state. AnswerKnown has a bit for each number that is known.
const (
	InquiryMagic = 0x494f4850 // "PHOI"
	InquiryBytes = 16         // magic u32, version u32, pad

	AnswerMagic     = 0        // u32, InquiryMagic; the places below are within the head
	AnswerVersion   = 4        // u32
	AnswerDevices   = 8        // u32
	AnswerHoldings  = 12       // u32
	AnswerServes    = 16       // u32: the newest CUDA that is served, 12040 for 12.4
	AnswerDriver    = 24       // text
	AnswerText      = 80       // bytes of a text, with its NUL
	AnswerHeadBytes = 128      //
	AnswerMost      = 16 << 20 // bytes of a whole answer

	AnswerUsed        = DeviceBytes      // u64; the places below are within a GPU's entry
	AnswerFree        = DeviceBytes + 8  // u64
	AnswerKnown       = DeviceBytes + 16 // u32
	AnswerBusy        = DeviceBytes + 20 // u32 percent
	AnswerMemoryBusy  = DeviceBytes + 24 // u32 percent
	AnswerTemperature = DeviceBytes + 28 // u32 degrees Celsius
	AnswerPower       = DeviceBytes + 32 // u32 milliwatts
	AnswerPowerLimit  = DeviceBytes + 36 // u32 milliwatts
	AnswerDeviceBytes = DeviceBytes + 64

	AnswerKnowsBusy        = 1
	AnswerKnowsTemperature = 2
	AnswerKnowsPower       = 4
	AnswerKnowsPowerLimit  = 8
	AnswerKnowsLost        = 16 // the GPU is lost; ignore its other numbers

	AnswerHoldingDevice = 0 // u32; the places below are within a holding's entry
	AnswerHolder        = 4 // u32: the program's pid in the caller's namespace
	AnswerHeld          = 8 // u64
	AnswerHoldingBytes  = 16
)
