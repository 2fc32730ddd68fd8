package apikey

import (
	"slices"
	"strings"
	"testing"
)

func TestSearchMatchesWordPrefixes(t *testing.T) {
	t.Parallel()
	k := Key{Prefix: "ab12cd34", Name: "Checkout-Team (EU) Ärzte"}
	tests := []struct {
		text string
		want bool
	}{
		{"", true},
		{"check", true},
		{"TEAM", true},
		{"checkout-team (eu", true},
		{"(eu", true},
		{"eu) ä", true},
		{"ärzte ", true},
		{"heckout", false},
		{"rzte", false},
		{"ab12", true},
		{"key-ab12cd34", true},
		{"key-b", false},
		{"key", false},
		{"key-", false},
		{"b12", false},
		{"ab12cd345", false},
		{"\xff", false},
	}
	for _, tt := range tests {
		text := SearchText(tt.text)
		if got := k.Found(text); got != tt.want {
			t.Errorf("found by %q: got %v, want %v", tt.text, got, tt.want)
		}
		indexed := text == "" || slices.Contains(k.SearchTerms(), SearchTerm(text))
		if tt.want && !indexed {
			t.Errorf("the index does not find the key by %q", tt.text)
		}
	}
}

func TestSearchTermsAreBounded(t *testing.T) {
	t.Parallel()
	k := Key{Prefix: "ab12cd34", Name: strings.TrimSpace(strings.Repeat("a ", 25) + strings.Repeat("ж", 50))}
	terms := k.SearchTerms()
	if most := searchWords*searchRunes + 2*PrefixLength; len(terms) > most {
		t.Errorf("got %d terms, want at most %d", len(terms), most)
	}
	for _, term := range terms {
		if n := len([]rune(term)); n > searchRunes {
			t.Errorf("term %q has %d characters, want at most %d", term, n, searchRunes)
		}
	}
}

func TestSortName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "ab12cd34", "Checkout Team": "checkout team", "Ärger": "ärger"} {
		if got := (Key{Prefix: "ab12cd34", Name: name}).SortName(); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
