package console

// notice is a message about a completed action, shown on the next page. The browser stores only its
// number, so that no one can inject a text.
type notice int

const (
	noticeNone notice = iota
	noticeSignedOut
	noticeSessionEnded
	noticePasswordChanged
	noticePasswordReset
	noticeUserCreated
	noticeUserDeactivated
	noticeUserActivated
	noticeUserRemoved
	noticeSessionsEnded
	noticeAdminGranted
	noticeAdminRevoked
	noticeOwnSessionsEnded
	noticeHostReleased
	noticeProjectCreated
	noticeProjectDeleted
	noticeEnvironmentCreated
	noticeEnvironmentDeleted
	noticeMemberSet
	noticeMemberRemoved
	noticeTokenRevoked
	noticeAppCreated
	noticeAppDeleted
	noticeGateOn
	noticeGateOff
	noticeGitSet
	noticeGitRemoved
	noticeWebhookEnabled
	noticeWebhookRegenerated
	noticeWebhookDisabled
	noticeTrustAdded
	noticeTrustRemoved
	noticeDeployed
	noticeRolledBack
	noticePromoted
	noticeBuildRequested
	noticePlanCreated
	noticePlanChanged
	noticePlanDeleted
	noticeKeyChanged
	noticeKeyDisabled
	noticeKeyEnabled
	noticeKeyRevoked
	noticeIssuedBefore
	noticeNothingChanged
	noticeNoUser
	noticeSecretCurrent
	noticeSecretPrevious
	noticeSecretRefused
	noticeSecretUnknown
	noticeLeakReported
	noticeProjectChanged
	noticePreflightSet
	noticeAddressSet
)

func (n notice) text() string { //nolint:funlen // a table
	texts := map[notice]string{ //nolint:gosec // no text is a credential
		noticeSignedOut:          "You are signed out.",
		noticeSessionEnded:       "Your session has ended. Sign in again; unsaved changes were lost.",
		noticePasswordChanged:    "Password changed. All your sessions have ended. Sign in with the new password.",
		noticePasswordReset:      "Password set. All sessions of the user have ended.",
		noticeHostReleased:       "Host released. Any project can now use it.",
		noticeUserCreated:        "User created. Add the user to a project as a member.",
		noticeUserDeactivated:    "User deactivated. All sessions of the user have ended.",
		noticeUserActivated:      "User activated. The user can sign in again.",
		noticeUserRemoved:        "User removed from all projects and deleted.",
		noticeSessionsEnded:      "All sessions of the user have ended.",
		noticeAdminGranted:       "Admin rights granted.",
		noticeAdminRevoked:       "Admin rights revoked.",
		noticeOwnSessionsEnded:   "All your sessions have ended. Sign in again.",
		noticeProjectCreated:     "Project created.",
		noticeProjectDeleted:     "Project deleted.",
		noticeEnvironmentCreated: "Environment created.",
		noticeEnvironmentDeleted: "Environment deleted.",
		noticeMemberSet:          "Role saved.",
		noticeMemberRemoved:      "Member removed.",
		noticeTokenRevoked:       "Service token revoked. Programs can no longer sign in with it.",
		noticeAppCreated:         "App created.",
		noticeAppDeleted:         "App deleted. Its host is reserved for the project for 30 days.",
		noticeGateOn:             "Require API key is on. The gate is usually in place within a minute.",
		noticeGateOff:            "Require API key is off. The gate is being removed.",
		noticeGitSet:             "Git source saved. The next build uses it.",
		noticeGitRemoved:         "Git source removed. The app keeps running its current image.",
		noticeWebhookEnabled:     "Webhook enabled. Show its token to set up your pipeline.",
		noticeWebhookRegenerated: "Webhook token replaced. The previous token no longer works; update your pipelines.",
		noticeTrustAdded:         "Trusted pipeline added. Add its snippet below to your CI configuration.",
		noticeTrustRemoved:       "Trusted pipeline removed. It can no longer deploy the app.",
		noticeWebhookDisabled:    "Webhook disabled. Its token no longer works.",
		noticeDeployed:           "Deployment saved. The rollout is in progress.",
		noticeRolledBack:         "Rollback saved. The rollout is in progress.",
		noticePromoted:           "Promotion saved. The rollout is in progress.",
		noticeBuildRequested:     "Build requested. This page shows its progress.",
		noticePlanCreated:        "Plan created.",
		noticePlanChanged:        "Plan saved.",
		noticePlanDeleted:        "Plan deleted.",
		noticeKeyChanged:         "Key saved.",
		noticeKeyDisabled:        "Key disabled.",
		noticeKeyEnabled:         "Key enabled.",
		noticeKeyRevoked:         "Key revoked. This cannot be undone.",
		noticeIssuedBefore: "No changes were made: this form has already issued a key. " +
			"If you did not copy that key, rotate it to get a new secret.",
		noticeNothingChanged: "No changes to save.",
		noticeNoUser:         "The user does not exist. Another admin may have removed it.",
		noticeSecretCurrent:  "Key found. You entered its current secret. The gate accepts it.",
		noticeSecretPrevious: "Key found. You entered its previous secret. The gate still accepts it.",
		noticeSecretRefused:  "Key found. You entered one of its secrets, but the gate rejects the key because of its status.",
		noticeLeakReported:   "Report received. If the key or service token was valid, it no longer works. Its project can see who reported it.",
		noticeProjectChanged: "Settings saved.",
		noticeAddressSet:     "Address saved. The app's page shows the progress of its gate.",
		noticePreflightSet:   "Setting saved. The app's page shows the progress of its gate.",
		noticeSecretUnknown:  "Key found by its prefix. You entered a secret that the gate rejects.",
	}
	return texts[n]
}
