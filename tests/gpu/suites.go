package main

import "time"

// runNeeds are the needs of programs under phos, and checkpointNeeds those of their checkpoints.
var (
	runNeeds        = []fact{hasGPU, isRoot, mayBecome}
	checkpointNeeds = []fact{hasGPU, isRoot, mayBecome, hasCRIU, mayTrace, mayMount, mayFreeze}
)

// suites are ordered so that failures are found early: cheap suites first, and in each the most
// informative tests first.
var suites = []suite{
	{
		part: "gputest", directory: "tests/nested", only: "^(TestConformance|TestCapture)$",
		needs: []fact{hasGPU}, about: 30 * time.Second, limit: 5 * time.Minute,
	},
	{
		part: "programs", directory: "tests/e2e", only: ".",
		first: []string{
			"TestDriverAPI",
			"TestCUDA",
			"TestCalls",
			"TestTinygrad",
			"TestSeparateCompilation",
			"TestFrameworks",
		},
		// They test the software GPU, or PyTorch.
		leave: "^(TestAddressInLog|TestFlood|TestMachineCodeOnly|TestInventoryOfSoftwareGPUs|TestNVML|TestTorch.*|TestTriton)$",
		needs: runNeeds, about: 20 * time.Second, limit: 4 * time.Minute,
	},
	{
		part: "torch", directory: "tests/e2e", only: "^(TestTorch|TestTorchGroup|TestTriton)$",
		needs: append([]fact{hasTorch}, runNeeds...), about: 40 * time.Second, limit: 8 * time.Minute,
	},
	{
		// Each does so little on the GPU that most of its time is the start and checkpoint of
		// PyTorch.
		part: "torch", prefix: "saved-", directory: "tests/checkpoint", only: "^TestTorch", leave: "^TestTorchModels$",
		needs: append([]fact{hasTorch}, checkpointNeeds...), about: 40 * time.Second, limit: 8 * time.Minute,
	},
	{
		part: "torch", prefix: "saved-", directory: "tests/checkpoint", only: "^TestTorchModels$",
		needs: append([]fact{hasTorch}, checkpointNeeds...), about: 2 * time.Minute, limit: 8 * time.Minute,
	},
	{
		part: "checkpoint", directory: "tests/checkpoint", only: ".",
		first: []string{
			"TestKilledAndRestored",
			"TestRandomTimes",
			"TestBusyPrograms",
			"TestCallsSurvive",
			"TestRestoreAfterChanges",
		},
		leave: "^TestTorch",
		needs: checkpointNeeds, about: 30 * time.Second, limit: 5 * time.Minute,
	},
}
