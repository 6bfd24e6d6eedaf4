@7137
Feature: A gate that does not open leaves the plan as it is
  In the reference system a transition changed the plan step by step while its rules were still being
  judged. A rule that failed half way left a plan with a new state and an old phase, which nothing
  could process any more.

  Here a decision is a value. A gate that blocks is recorded beside the plan; its phase, state,
  version and timestamps do not move.

  Scenario Outline: Blocked during <command>, the plan stays, and goes on once the rule is removed (<store>)
    Given a <store> store
    And a plan that is <stage>
    And a rule that never holds at the <gate> gate
    When <command> is tried
    Then it is blocked by the rule
    And phase, state, version and timestamps are as they were
    And the log is as it was
    And everybody sees that the plan is blocked
    When <command> is tried
    Then it is blocked by the rule
    And phase, state, version and timestamps are as they were
    When the rule is removed
    And <command> is tried
    Then it succeeds
    And the plan is <next>
    And the store is sound

    Examples:
      | store    | command          | gate       | stage               | next                       |
      | memory   | start-strategize | strategize | strategize/queued   | strategize/processing      |
      | memory   | execute-plan     | execute    | strategize/complete | execute/queued             |
      | memory   | apply-plan       | apply      | execute/complete    | apply/queued               |
      | memory   | prepare-apply    | apply      | apply/processing    | apply/processing, prepared |
      | sqlite   | start-strategize | strategize | strategize/queued   | strategize/processing      |
      | sqlite   | execute-plan     | execute    | strategize/complete | execute/queued             |
      | sqlite   | apply-plan       | apply      | execute/complete    | apply/queued               |
      | sqlite   | prepare-apply    | apply      | apply/processing    | apply/processing, prepared |
      | postgres | start-strategize | strategize | strategize/queued   | strategize/processing      |
      | postgres | execute-plan     | execute    | strategize/complete | execute/queued             |
      | postgres | apply-plan       | apply      | execute/complete    | apply/queued               |
      | postgres | prepare-apply    | apply      | apply/processing    | apply/processing, prepared |

  Scenario Outline: Blocked during <command>, the plan goes on once the rule is waived (<store>)
    Given a <store> store
    And a plan that is <stage>
    And a rule that never holds at the <gate> gate
    When <command> is tried
    Then it is blocked by the rule
    And phase, state, version and timestamps are as they were
    When the rule is waived
    And <command> is tried
    Then it succeeds
    And the plan is <next>
    And the log says who waived the rule and why
    And the store is sound

    Examples:
      | store    | command          | gate       | stage               | next                  |
      | memory   | start-strategize | strategize | strategize/queued   | strategize/processing |
      | memory   | execute-plan     | execute    | strategize/complete | execute/queued        |
      | memory   | apply-plan       | apply      | execute/complete    | apply/queued          |
      | sqlite   | start-strategize | strategize | strategize/queued   | strategize/processing |
      | sqlite   | execute-plan     | execute    | strategize/complete | execute/queued        |
      | sqlite   | apply-plan       | apply      | execute/complete    | apply/queued          |
      | postgres | start-strategize | strategize | strategize/queued   | strategize/processing |
      | postgres | execute-plan     | execute    | strategize/complete | execute/queued        |
      | postgres | apply-plan       | apply      | execute/complete    | apply/queued          |

  Scenario Outline: A rule that cannot be waived is not (<store>)
    Given a <store> store
    And a plan that is strategize/complete
    And a non-overridable rule that never holds at the execute gate
    When execute-plan is tried
    Then it is blocked by the rule
    When the rule is waived in vain
    And execute-plan is tried
    Then it is blocked by the rule
    And phase, state, version and timestamps are as they were
    When the rule is removed
    And execute-plan is tried
    Then it succeeds

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: A rule that <cannot be judged> blocks, and leaves the plan as it is
    Given a sqlite store
    And a plan that is strategize/complete
    And the rule <expression> at the execute gate
    When execute-plan is tried
    Then it is blocked by the rule
    And it says <why>
    And phase, state, version and timestamps are as they were
    When the rule is removed
    And execute-plan is tried
    Then it succeeds
    And the plan is execute/queued

    Examples:
      | cannot be judged           | expression                | why                          |
      | asks for what is not there | "arguments.area == 'x'"   | "there is no `area`"         |
      | is no yes or no            | "plan.phase == 'example' ? true : plan.goal" | "it is string" |
      | divides by zero            | "1 / (plan.attempt - 1) > 0" | "it could not be evaluated" |

  Scenario Outline: A result that breaks a rule is handed in, and stays until it is put right (<store>)
    Given a <store> store
    And a plan that is execute/processing
    And a rule that never holds at the result gate
    When complete-execute is tried
    Then it succeeds
    And the plan is execute/complete
    When everything is looked at
    And apply-plan is tried
    Then it is blocked by the rule
    And phase, state, version and timestamps are as they were
    When the rule is waived
    And apply-plan is tried
    Then it succeeds
    And the plan is apply/queued

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: A commit that fails while a gate blocks changes nothing either (<store>)
    Given a <store> store
    And a plan that is strategize/complete
    And a rule that never holds at the execute gate
    When execute-plan is tried and the database fails before the commit
    Then it is told that nothing was stored
    And everything is as it was
    When execute-plan is tried and the answer to the commit is lost
    Then it is blocked by the rule
    And phase, state, version and timestamps are as they were

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |
