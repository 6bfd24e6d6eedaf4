@1281
Feature: Threads share a store without losing anything
  In the reference system plans and actions without a database were kept in bare dictionaries, read
  and written by many threads. Two that created something at the same time could lose each other's.

  Here memory is one more store behind the same write path, with the same guarantees as the others.

  Scenario Outline: 64 threads create actions and plans, and none is lost (<store>)
    Given a <store> store
    When 64 threads each create 2 actions of their own and 2 plans
    Then there are 128 actions and 128 plans
    And everyone finds what they created, as they created it
    And the store is sound

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: Of 64 threads that create the same action one wins, the others are told (<store>)
    Given a <store> store
    When 64 threads create an action of the same name
    Then one of them creates it
    And the 63 others are told that it exists, since when and by whom
    And the action is the winner's

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: An action that may be used once is used once by 64 threads (<store>)
    Given a <store> store
    And an action that is not reusable
    When 64 threads use the action
    Then one of them makes a plan
    And the 63 others are told which plan was made of it

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: No plan is made of an action after it was archived (<store>)
    Given a <store> store
    And an action
    When 32 threads use the action again and again until it is archived
    Then every plan that was promised is there, and no other
    And no plan is younger than the archiving
    And every thread was told at last that the action was archived

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: A reader never sees half an object (<store>)
    Given a <store> store
    When 4 threads take 8 plans each from their making to their landing while 4 threads read
    Then every plan that was read is what its events say, up to its version
    And every action that was read had its rules
    And the store is sound

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: 64 threads that start one phase get one claim (<store>)
    Given a <store> store
    And a plan that is execute/queued
    When 64 threads start the execute phase
    Then one of them gets the claim
    And the 63 others are told who holds it
    And the phase was claimed once

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |
