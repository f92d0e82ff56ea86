package throughput

// builtin returns models with round numbers, of the size of published measurements on a V100. They
// serve to compare policies. For specific jobs, measure them (see Read).
//
// Batches are in samples (thousands of tokens for the language models), times in seconds.
func builtin() []*Model {
	return []*Model{
		{
			Name: "resnet18", Batch: 128, MaxBatch: 4096, Local: 512, Noise: 1200,
			Rates: steep, Step: StepTime{0.012, 0.0005, 0.055, 0.0020, 0.012, 0.0008, 1.6},
		},
		{
			Name: "resnet50", Batch: 200, MaxBatch: 12000, Local: 200, Noise: 6000,
			Rates: steep, Step: StepTime{0.030, 0.0027, 0.110, 0.0030, 0.030, 0.0010, 1.8},
		},
		{
			Name: "vgg16", Batch: 128, MaxBatch: 2048, Local: 128, Noise: 900,
			Rates: steep, Step: StepTime{0.025, 0.0048, 0.650, 0.0200, 0.140, 0.0060, 1.5},
		},
		{
			Name: "mobilenet", Batch: 256, MaxBatch: 4096, Local: 512, Noise: 1500,
			Rates: gentle, Step: StepTime{0.030, 0.0009, 0.030, 0.0010, 0.010, 0.0005, 1.4},
		},
		{
			Name: "yolov3", Batch: 8, MaxBatch: 512, Local: 16, Noise: 90,
			Rates: middle, Step: StepTime{0.060, 0.0270, 0.240, 0.0060, 0.070, 0.0020, 1.9},
		},
		{
			Name: "lstm", Batch: 80, MaxBatch: 1280, Local: 160, Noise: 500,
			Rates: gentle, Step: StepTime{0.045, 0.0016, 0.180, 0.0080, 0.050, 0.0030, 1.2},
		},
		{
			Name: "deepspeech2", Batch: 20, MaxBatch: 640, Local: 40, Noise: 220,
			Rates: gentle, Step: StepTime{0.100, 0.0130, 0.200, 0.0050, 0.060, 0.0020, 1.3},
		},
		{
			Name: "transformer", Batch: 32, MaxBatch: 1024, Local: 64, Noise: 800,
			Rates: middle, Step: StepTime{0.040, 0.0052, 0.170, 0.0050, 0.040, 0.0015, 1.7},
		},
		{
			Name: "bert", Batch: 24, MaxBatch: 1536, Local: 24, Noise: 900,
			Rates: tensor, Step: StepTime{0.035, 0.0180, 0.310, 0.0080, 0.060, 0.0020, 2.0},
		},
		{
			Name: "gpt2", Batch: 32, MaxBatch: 2048, Local: 8, Noise: 1600,
			Rates: tensor, Step: StepTime{0.050, 0.0450, 0.420, 0.0090, 0.080, 0.0020, 2.2},
		},
		{
			Name: "recommender", Batch: 4096, MaxBatch: 65536, Local: 16384, Noise: 20000,
			Rates: flat, Step: StepTime{0.020, 0.00003, 0.060, 0.0040, 0.020, 0.0020, 1.1},
		},
		{
			Name: Unknown, Batch: 64, MaxBatch: 1024, Local: 128, Noise: 400,
			Rates: middle, Step: StepTime{0.030, 0.0040, 0.120, 0.0040, 0.030, 0.0015, 1.6},
		},
	}
}

// How fast types of GPU are relative to a V100 depends on what a model computes: dense matrices
// gain most, lookups least.
var (
	tensor = map[string]float64{
		"K80": 0.12, "P100": 0.45, "T4": 0.42, "V100": 1,
		"A10": 1.1, "A100": 2.6, "H100": 5.2, "H200": 5.6,
	}
	steep = map[string]float64{
		"K80": 0.18, "P100": 0.55, "T4": 0.45, "V100": 1,
		"A10": 0.95, "A100": 2.0, "H100": 3.4, "H200": 3.6,
	}
	middle = map[string]float64{
		"K80": 0.25, "P100": 0.60, "T4": 0.45, "V100": 1,
		"A10": 0.95, "A100": 1.8, "H100": 2.9, "H200": 3.1,
	}
	gentle = map[string]float64{
		"K80": 0.35, "P100": 0.70, "T4": 0.55, "V100": 1,
		"A10": 0.95, "A100": 1.5, "H100": 2.1, "H200": 2.2,
	}
	flat = map[string]float64{
		"K80": 0.55, "P100": 0.80, "T4": 0.70, "V100": 1,
		"A10": 0.95, "A100": 1.2, "H100": 1.4, "H200": 1.5,
	}
)
