package main

import "testing"

func TestIdentify(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"apache", "  Apache License\n  Version 2.0, January 2004", "Apache-2.0"},
		{"mit", "Permission is hereby granted, free of charge, to any\nperson obtaining a copy of this software", "MIT"},
		{"three clauses", "Redistribution and use in source and binary forms … * Neither the name of Google", "BSD-3-Clause"},
		{"two clauses", "Redistribution and use in source and binary forms, with or without modification", "BSD-2-Clause"},
		{"isc", "Permission to use, copy, modify, and distribute this software for any\npurpose with or without fee is hereby granted", "ISC"},
		{"mozilla", "Mozilla Public License Version 2.0", "MPL-2.0"},
		{"two licenses", "Apache License\nVersion 2.0\n\nPermission is hereby granted, free of charge, to any person obtaining a copy", "Apache-2.0 AND MIT"},
		{"another", "All rights reserved.", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := identify([]byte(test.text)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
